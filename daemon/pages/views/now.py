"""Now: how the workspace is: the last and the next dream, what waits, what was refused and spent, what is wrong."""

from collections.abc import Mapping
from datetime import datetime

from daemon.api.operations.dreams import DreamNow, dream_now, dream_status
from daemon.api.operations.notes import current_mood
from daemon.api.operations.operation import Nothing
from daemon.pages.page import Action, Ask, Done, Page, Replies


def _read(ask: Ask, _: Nothing) -> Replies:
    return {"dream_status": ask(dream_status, Nothing()), "mood": ask(current_mood, Nothing())}


def _view(replies: Replies, _: Nothing, __: datetime) -> Mapping[str, object]:
    spent = replies["dream_status"].spending
    ceilings = (
        ("tokens, this workspace", spent.tokens, spent.tokens_per_day, "number"),
        ("dollars, this workspace", spent.usd, spent.usd_per_day, "usd"),
        ("tokens, all workspaces", spent.all_tokens, spent.all_tokens_per_day, "number"),
        ("dollars, all workspaces", spent.all_usd, spent.all_usd_per_day, "usd"),
    )
    return {"ceilings": ceilings}


def _dream(ask: Ask, _: Nothing) -> Done:
    """Ask for a dream; the page shows how it goes."""
    done = ask(dream_now, DreamNow(wait=False))
    if done.outcome is None:
        return Done("A dream was asked for: it shows here as it runs.")
    return Done(f"It dreamt: MEMORY.md is at version {done.outcome.dream.number}.", version=done.outcome.dream.number)


PAGE = Page("now", "Now", _read, view=_view, live=True, actions=(Action("dream", Nothing, _dream, long=True),))
