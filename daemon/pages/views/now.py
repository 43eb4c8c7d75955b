"""Now: how the workspace is: what to do next, the last and the next dream, what waits, was refused and spent."""

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.notes import current_mood
from daemon.pages.page import Ask, Page, Shown
from daemon.pages.views.dreams import DREAM


def _read(ask: Ask) -> Shown:
    status = ask(dream_status)
    spent = status.spending
    ceilings = (
        ("tokens, this workspace", spent.tokens, spent.tokens_per_day, "number"),
        ("dollars, this workspace", spent.usd, spent.usd_per_day, "usd"),
        ("tokens, all workspaces", spent.all_tokens, spent.all_tokens_per_day, "number"),
        ("dollars, all workspaces", spent.all_usd, spent.all_usd_per_day, "usd"),
    )
    return Shown({"dream_status": status, "mood": ask(current_mood)}, {"ceilings": ceilings})


PAGE = Page("now", "Now", _read, acts=(DREAM,), live=True)
