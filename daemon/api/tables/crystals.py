"""Operations on the crystals as a table: a part of it, filtered and sorted, and all that is known of one."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Request, operation
from daemon.api.tables.crystal_details import CrystalDetails, details
from daemon.api.tables.cursor import MAX_CHARACTERS, place_in, written
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


class CrystalsRequest(Request):
    """Which crystals, in which order, and which part of them."""

    origin: Origin | None = None
    kind: Kind | None = None
    trust: Trust | None = Field(default=None, description="At least")
    lifecycle: Lifecycle | None = None
    session: str | None = Field(default=None, max_length=1_000)
    speaker: str | None = Field(default=None, max_length=1_000)
    since: Moment | None = Field(default=None, description="Only from this time on")
    until: Moment | None = Field(default=None, description="Only before then")
    superseded: Literal["yes", "no", "any"] = Field(default="any", description="Whether another value holds now")
    text: str = Field(default="", max_length=200, description="Words of it, the last one may be a beginning")
    sort: Sort = Sort.CREATED_AT
    order: Literal["descending", "ascending"] = "descending"
    limit: int = Field(default=50, ge=1, le=MOST)
    cursor: str = Field(default="", max_length=MAX_CHARACTERS, description="next_cursor before")

    @property
    def after(self) -> Place | None:
        """Where the part begins. Raise UsageError for a cursor of another order."""
        return Place(*place_in(self.cursor, self._order, self.sort.kind, int)) if self.cursor else None

    def cursor_of(self, row: ListedCrystal) -> str:
        """Return where the part after this row begins."""
        return written(self._order, *row.place)

    @property
    def _order(self) -> str:
        return f"crystals by {self.sort} {self.order}"


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


@operation("crystals", "/crystals", method="GET")
def crystals(access: WorkspaceAccess, request: CrystalsRequest) -> CrystalTable:
    """Return the crystals as a table: filtered, sorted, part by part."""
    after, now = request.after, utc_now()
    with access.read() as store:
        supersessions = Supersessions(store.crystals)
        chosen = Chosen(
            Filters(
                request.origin,
                request.kind,
                request.session,
                request.speaker,
                request.since,
                request.until,
                request.trust,
            ),
            request.lifecycle,
            request.text,
            None if request.superseded == "any" else supersessions.superseded(),
            is_superseded=request.superseded == "yes",
            sort=request.sort,
            descending=request.order == "descending",
        )
        listing = CrystalList(store.crystals.connection)
        rows = listing.part(chosen, request.limit + 1, now, after)
        part = rows[: request.limit]
        total = None if after else listing.count(chosen, now) if len(rows) > len(part) else len(part)
        superseded = chosen.superseded
        if superseded is None:
            superseded = frozenset(supersessions.among(key for row in part for key in row.keys).current)
        return CrystalTable(
            crystals=_rows(store, part, superseded),
            total=total and min(total, MOST_COUNTED),
            more=total is not None and total > MOST_COUNTED,
            next_cursor=request.cursor_of(part[-1]) if len(rows) > len(part) else None,
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


class CrystalRequest(Request):
    """Which crystal."""

    id: str = Field(min_length=8, max_length=32, pattern="^[0-9a-f]+$", description="Its id, or the beginning of it")


@operation("crystal", "/crystals/one", method="GET")
def crystal(access: WorkspaceAccess, request: CrystalRequest) -> CrystalDetails:
    """Return everything that is known of one crystal: where it was said, what it was made of, what rests on it."""
    with access.read() as store:
        return details(store, request.id, utc_now())
