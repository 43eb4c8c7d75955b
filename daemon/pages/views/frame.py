"""Frame: what stands above every page of a workspace: where one is, what waits, whether it dreams."""

from pydantic import Field

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.request import Request
from daemon.pages.page import Ask, Page, Replies


class Shown(Request):
    """Above which page."""

    shown: str = Field(default="", max_length=40)


def _read(ask: Ask, _: Shown) -> Replies:
    return {"dream_status": ask(dream_status)}


PAGE = Page("frame", "Frame", _read, Shown)
