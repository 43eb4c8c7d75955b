"""The table of pages, and which of them are in the navigation, in the order of their worth."""

from daemon.api.operations.dreams import dream_status
from daemon.pages.page import Ask, Page, Shown
from daemon.pages.views import dreams, forget, memory, now, review, search, sessions, settings

FIRST = "now"


def _frame(ask: Ask, shown: str = "") -> Shown:  # noqa: ARG001 - for the template
    """Read what is above every page: where one is, what waits, whether it dreams."""
    return Shown({"dream_status": ask(dream_status)})


_SHOWN = (
    review.PAGE, now.PAGE, memory.PAGE, dreams.PAGE, search.PAGE, sessions.PAGE, forget.PAGE, settings.PAGE,
)  # fmt: skip
_OTHERS = (Page("frame", "Frame", _frame), memory.LINE, dreams.DREAM_PAGE, search.CRYSTAL, sessions.SESSION)

PAGES: dict[str, Page] = {page.name: page for page in (*_SHOWN, *_OTHERS)}
NAVIGATION = tuple((page.name, page.title) for page in _SHOWN)
