"""Operations on crystals: list them, show one in full, and say which of two is superseded."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Moment
from daemon.api.shapes import one_row
from daemon.ingest.notes import absorb_notes
from daemon.journal.crystal import CrystalDetails, details
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.crystals.supersession import Cause, Supersession
from state.errors import NotFoundError, NothingToDoError, UsageError
from state.search.ranking import Filters
from state.stores.crystals.listing import MOST_COUNTED, Chosen, CrystalList, ListedCrystal, Sort
from state.stores.database.connection import transaction
from state.text.words import normalise
from state.trust import Trust

_CUT = 500
MOST = 200


@dataclass(frozen=True, slots=True)
class CrystalTable:
    """A page of crystals, with at most 500 characters of each text. Only the first page has a `total`.

    `more`: there are more than `total`. `next_cursor` begins the next page; None on the last.
    """

    crystals: tuple[ListedCrystal, ...]
    total: int | None
    more: bool
    next_cursor: str | None


@operation("crystals", reads=True)
def crystals(
    access: WorkspaceAccess,
    origin: Origin | None = None,
    kind: Kind | None = None,
    trust: Annotated[Trust | None, Arg("At least")] = None,
    lifecycle: Lifecycle | None = None,
    session: Annotated[str | None, Arg(max_length=1_000)] = None,
    speaker: Annotated[str | None, Arg(max_length=1_000)] = None,
    since: Annotated[Moment | None, Arg("Only from this time on")] = None,
    until: Annotated[Moment | None, Arg("Only before then")] = None,
    superseded: Annotated[Literal["yes", "no", "any"], Arg("Whether another value holds now")] = "any",
    text: Annotated[str, Arg("Words of it, the last one may be a beginning", max_length=200)] = "",
    sort: Sort = Sort.CREATED_AT,
    order: Literal["descending", "ascending"] = "descending",
    limit: Annotated[int, Arg(ge=1, le=MOST)] = 50,
    cursor: Annotated[str, Arg("next_cursor before", max_length=32, pattern="^[0-9a-f]*$")] = "",
) -> CrystalTable:
    """Return the crystals as a table: filtered, sorted, part by part."""
    now = utc_now()
    with access.read() as store:
        supersessions, listing = store.supersessions, CrystalList(store.connection)
        chosen = Chosen(
            Filters(origin, kind, session, speaker, since, until, trust),
            lifecycle,
            text,
            None if superseded == "any" else supersessions.superseded(),
            is_superseded=superseded == "yes",
            sort=sort,
            descending=order == "descending",
        )
        rows = listing.part(chosen, limit + 1, now, listing.place(cursor, sort) if cursor else None)
        part = rows[:limit]
        total = None if cursor else listing.count(chosen, now) if len(rows) > len(part) else len(part)
        without_hold = chosen.superseded
        if without_hold is None:
            without_hold = frozenset(supersessions.among(key for row in part for key in row.keys).current)
        shown = store.shown
        return CrystalTable(
            crystals=tuple(
                replace(
                    row,
                    text=shown(row.text)[:_CUT],
                    session=shown(row.session),
                    speaker=shown(row.speaker),
                    superseded=row.keys[-1] in without_hold,
                )
                for row in part
            ),
            total=total and min(total, MOST_COUNTED),
            more=total is not None and total > MOST_COUNTED,
            next_cursor=part[-1].id if len(rows) > len(part) else None,
        )


@operation("crystal", reads=True)
def crystal(
    access: WorkspaceAccess,
    id: Annotated[str, Arg("Its id, or the beginning of it", min_length=8, max_length=32, pattern="^[0-9a-f]+$")],
) -> CrystalDetails:
    """Return everything that is known of one crystal: where it was said, what it was made of, what rests on it."""
    with access.read() as store:
        return details(store, id, utc_now())


@dataclass(frozen=True, slots=True)
class Superseded:
    """The texts of both memories. `undone`: both hold again; `turned`: the newer one was superseded before."""

    older: str
    newer: str
    undone: bool
    turned: bool


def superseded_text(reply: Superseded) -> str:
    """Say which of the two memories holds now."""
    older = f"{'holds again' if reply.undone else 'superseded'}: {one_row(reply.older)}"
    return f"{older}\nholds: {one_row(reply.newer)}"


@operation("supersede", remote=False, text=superseded_text)
def supersede(
    access: WorkspaceAccess,
    older: Annotated[str, Arg("What holds no longer", min_length=1, max_length=10_000)],
    newer: Annotated[str, Arg("What holds now", min_length=1, max_length=10_000)],
    undo: Annotated[bool, Arg("Take it back: both hold")] = False,
) -> Superseded:
    """Say, as the owner of the workspace, that one memory holds no longer because of another one, or take it back.

    Raise NotFoundError for what names no memory, UsageError for what names several, or one twice, and
    NothingToDoError when there is nothing to take back.
    """
    with access.write() as store:
        now = utc_now()
        absorb_notes(store, now)
        (once, before), (now_holds, after) = _find_memory(store, older), _find_memory(store, newer)
        if before & after:
            raise UsageError("both are the same memory", "name two")
        with transaction(store.connection):
            store.memory.check()
            pairs = {(pair.older, pair.newer) for pair in store.supersessions.among(before | after).pairs}
            # An earlier supersession of these would form a cycle with the new one.
            undone = [store.supersessions.undo(one, other, now) for one in before for other in after]
            if not undo:
                holds = max(after)
                store.supersessions.record(
                    Supersession(one, holds, now, Trust.OWNER, Cause.OWNER) for one in sorted(before)
                )
            elif not any(undone):
                raise NothingToDoError("neither supersedes the other", "'dreamd why' says what superseded a line")
        turned = not undo and any((other, one) in pairs for one in before for other in after)
        texts = store.shown(once.text), store.shown(now_holds.text)
    return Superseded(*texts, undone=undo, turned=turned)


def _find_memory(store: Store, name: str) -> tuple[Crystal, set[int]]:
    """Return the crystal with this id or text, or behind this line, and the rows of all with its text."""
    line = store.lineage.life(name.strip().upper())
    found = [] if line else store.crystals.named(name)
    if not found:
        lines = [line] if line else store.lineage.lives(name) if normalise(name) else []
        for one in lines:
            rests_on = store.crystals.get(one.evidence)
            found += [crystal for crystal in rests_on if normalise(crystal.text) == normalise(one.text)] or rests_on
    if not found:
        raise NotFoundError(f"no memory has {name[:200]!r} in it or as its id", "'dreamd search' shows texts and ids")
    if len({normalise(one.text) for one in found}) > 1:
        ids = ", ".join(f"{one.id[:12]} ({store.shown(one.text)[:60]!r})" for one in found[:5])
        raise UsageError(f"{name[:200]!r} means several memories: {ids}", "name one by its id")
    return found[-1], set(store.crystals.keys(one.id for one in found).values())
