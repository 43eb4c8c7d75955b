"""Operations on the crystals as a table: a part of it, filtered and sorted, and all that is known of one."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.tables.cursor import MAX_CHARACTERS, place_in, written
from daemon.explain.crystal import CrystalDetails, details
from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Kind, Lifecycle, Origin
from state.search.ranking import Filters
from state.stores.crystals.listing import MOST_COUNTED, Chosen, CrystalList, ListedCrystal, Place, Sort
from state.stores.crystals.supersessions import Supersessions
from state.trust import Trust

_CUT = 500
MOST = 200
_DATED = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")


def _dated(moment: object) -> object:
    """Return the moment, unless it is a bare number, which would be read as seconds since 1970."""
    if isinstance(moment, str) and not _DATED.match(moment):
        raise ValueError("it is no date and time with an offset")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_dated)]


@dataclass(frozen=True, slots=True)
class CrystalRow:
    """A crystal as a row. `text` ends after 500 characters when it is `cut`. `fades_at`: never when None.

    `lifecycle` is as of now; `superseded`: another value of the same subject holds now; `dreamt_in`: the version
    whose dream took it in.
    """

    id: str
    text: str
    cut: bool
    origin: str
    kind: str
    trust: str
    importance: float
    lifecycle: str
    session: str
    speaker: str
    created_at: datetime
    accesses: int
    fades_at: datetime | None
    superseded: bool
    dreamt_in: int | None


@dataclass(frozen=True, slots=True)
class CrystalTable:
    """A part of the table. `total` is told with its first part: how many there are, `more` than it if so.

    `next_cursor` is where the next part begins; None: there is no more.
    """

    crystals: tuple[CrystalRow, ...]
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
    cursor: Annotated[str, Arg("next_cursor before", max_length=MAX_CHARACTERS)] = "",
) -> CrystalTable:
    """Return the crystals as a table: filtered, sorted, part by part."""
    ordered, now = f"crystals by {sort} {order}", utc_now()
    after = Place(*place_in(cursor, ordered, sort.kind, int)) if cursor else None
    with access.read() as store:
        supersessions = Supersessions(store.crystals)
        chosen = Chosen(
            Filters(origin, kind, session, speaker, since, until, trust),
            lifecycle,
            text,
            None if superseded == "any" else supersessions.superseded(),
            is_superseded=superseded == "yes",
            sort=sort,
            descending=order == "descending",
        )
        listing = CrystalList(store.crystals.connection)
        rows = listing.part(chosen, limit + 1, now, after)
        part = rows[:limit]
        total = None if after else listing.count(chosen, now) if len(rows) > len(part) else len(part)
        without_hold = chosen.superseded
        if without_hold is None:
            without_hold = frozenset(supersessions.among(key for row in part for key in row.keys).current)
        return CrystalTable(
            crystals=_rows(store, part, without_hold),
            total=total and min(total, MOST_COUNTED),
            more=total is not None and total > MOST_COUNTED,
            next_cursor=written(ordered, *part[-1].place) if len(rows) > len(part) else None,
        )


def _rows(store: Store, rows: list[ListedCrystal], superseded: frozenset[int]) -> tuple[CrystalRow, ...]:
    shown = shown_of(store)
    texts = [shown(row.text) for row in rows]
    return tuple(
        CrystalRow(
            id=row.id,
            text=text[:_CUT],
            cut=len(text) > _CUT,
            origin=row.origin,
            kind=row.kind,
            trust=row.trust,
            importance=row.importance,
            lifecycle=row.lifecycle,
            session=shown(row.session),
            speaker=shown(row.speaker),
            created_at=row.created_at,
            accesses=row.accesses,
            fades_at=row.fades_at,
            superseded=row.keys[-1] in superseded,
            dreamt_in=row.dreamt_in,
        )
        for row, text in zip(rows, texts, strict=True)
    )


@operation("crystal", reads=True)
def crystal(
    access: WorkspaceAccess,
    id: Annotated[str, Arg("Its id, or the beginning of it", min_length=8, max_length=32, pattern="^[0-9a-f]+$")],
) -> CrystalDetails:
    """Return everything that is known of one crystal: where it was said, what it was made of, what rests on it."""
    with access.read() as store:
        return details(store, id, utc_now())
