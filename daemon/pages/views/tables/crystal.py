"""Crystal: all that is known of one: who said it and where, whether it holds, what rests on it; beside, or alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from daemon.api.operations.request import Request
from daemon.api.tables.crystal_details import CrystalDetails, CrystalName, OtherValue
from daemon.api.tables.crystals import crystal
from daemon.pages.page import Ask, Page, Replies
from daemon.pages.views.tables import crystals

# So many of each list are shown; all that the operation tells of stand at the page's .json.
_MOST = 12
_LISTS = ("occurrences", "parents", "children", "merged_from", "lines", "pointers")


def _read(ask: Ask, query: Request) -> Replies:
    return {"crystal": ask(crystal, **query.given)}


def _view(replies: Replies, _: Request, __: datetime) -> Mapping[str, object]:
    one: CrystalDetails = replies["crystal"]
    lists = {name: getattr(one, name) for name in _LISTS}
    return {
        "one": one,
        "shown": {name: rows[:_MOST] for name, rows in lists.items()},
        "hidden": {name: max(0, len(rows) - _MOST) + one.more.get(name, 0) for name, rows in lists.items()},
        "values": (
            ("Superseded by", _standing(one.superseded_by)),
            ("Supersedes", _standing(one.supersedes)),
        ),
        "undone": _undone((*one.superseded_by, *one.supersedes)),
    }


def _undone(values: Sequence[OtherValue]) -> list[CrystalName]:
    """Return the crystals of which the owner said last that they hold as well."""
    standing = {one.crystal.id for one in values if one.undone_at is None}
    return list({one.crystal.id: one.crystal for one in values if one.crystal.id not in standing}.values())[:_MOST]


def _standing(values: Sequence[OtherValue]) -> list[OtherValue]:
    """Return those that the owner did not take back."""
    return [one for one in values if one.undone_at is None][:_MOST]


PAGE = Page("crystal", "Crystal", _read, crystal.request, view=_view, actions=crystals.PAGE.actions, under="crystals")
