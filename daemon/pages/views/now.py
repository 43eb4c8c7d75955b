"""Now: how the workspace is: the last and the next dream, what waits, what was refused and spent, what is wrong."""

from collections.abc import Mapping
from datetime import datetime

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.notes import current_mood
from daemon.api.operations.request import Nothing
from daemon.pages.page import Action, Ask, Page, Replies
from daemon.pages.views.dreams import dream_soon


def _read(ask: Ask, _: Nothing) -> Replies:
    return {"dream_status": ask(dream_status), "mood": ask(current_mood)}


def _view(replies: Replies, _: Nothing, __: datetime) -> Mapping[str, object]:
    spent = replies["dream_status"].spending
    ceilings = (
        ("tokens, this workspace", spent.tokens, spent.tokens_per_day, "number"),
        ("dollars, this workspace", spent.usd, spent.usd_per_day, "usd"),
        ("tokens, all workspaces", spent.all_tokens, spent.all_tokens_per_day, "number"),
        ("dollars, all workspaces", spent.all_usd, spent.all_usd_per_day, "usd"),
    )
    return {"ceilings": ceilings}


PAGE = Page("now", "Now", _read, view=_view, live=True, actions=(Action("dream", Nothing, dream_soon, long=True),))
