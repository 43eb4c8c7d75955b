"""Operations on the signals as tables: open questions, emerging skills, hormones over time, what stays forgotten."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import gt, itemgetter, lt
from typing import Annotated, Literal

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.tables.cursor import MAX_CHARACTERS, place_in, written
from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import utc_now
from state.signals.curiosity import Cause, Gap, question_key
from state.signals.hormones import Hormones, mood, resting
from state.stores.crystals.skills import Skills
from state.stores.database.connection import to_text
from state.stores.erasing.intent import forgotten_count, forgotten_list

MOST = 200
MOST_EVENTS = 100
_CUT = 300


@dataclass(frozen=True, slots=True)
class GapRow:
    """An open question, how often it was raised, and by what."""

    id: str
    question: str
    cause: str
    times: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class GapTable:
    """A part of the open questions, of `total` in all. `next_cursor`: where the next part begins; None: the end."""

    gaps: tuple[GapRow, ...]
    total: int
    next_cursor: str | None


@operation("gaps", reads=True)
def gaps(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg(ge=1, le=MOST)] = 20,
    cursor: Annotated[str, Arg("next_cursor before", max_length=MAX_CHARACTERS)] = "",
    cause: Cause | None = None,
    sort: Literal["times", "first_at", "last_at"] = "last_at",
    order: Literal["descending", "ascending"] = "descending",
) -> GapTable:
    """Return the open questions: what was asked and is not answered yet."""
    ordered, descending = f"gaps by {sort} {order}", order == "descending"
    after = place_in(cursor, ordered, str, str) if cursor else None
    with access.read() as store:
        found = store.questions.all(cause)
        placed = sorted(((_place(one, sort), one) for one in found), key=itemgetter(0), reverse=descending)
        beyond = lt if descending else gt
        rest = [(place, one) for place, one in placed if after is None or beyond(place, after)]
        part = rest[:limit]
        next_cursor = written(ordered, *part[-1][0]) if len(rest) > len(part) else None
        shown = shown_of(store)
        rows = (
            GapRow(_digest(one), shown(one.question), one.cause, one.times, one.first_at, one.last_at)
            for _, one in part
        )
        return GapTable(tuple(rows), len(found), next_cursor)


def _place(one: Gap, sort: str) -> tuple[str, str]:
    """Return where a question stands: what it is sorted by, then a digest in place of its words."""
    moments = {"first_at": one.first_at, "last_at": one.last_at}
    return to_text(moments[sort]) if sort in moments else f"{one.times:020d}", _digest(one)


def _digest(one: Gap) -> str:
    return hashlib.sha256(question_key(one.question).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A task that comes back: how sure, how often, and in how many sessions."""

    pattern: str
    confidence: float
    occurrences: int
    sessions: int


@dataclass(frozen=True, slots=True)
class SkillTable:
    """A part of the skills of the last pass, the most confident first; `total` is None before the first pass."""

    skills: tuple[SkillRow, ...]
    total: int | None
    next_cursor: str | None


@operation("skills", reads=True)
def skills(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg(ge=1, le=MOST)] = 50,
    cursor: Annotated[str, Arg("next_cursor before", max_length=MAX_CHARACTERS)] = "",
) -> SkillTable:
    """Return the emerging skills: tasks that came back in different sessions."""
    (place,) = place_in(cursor, "skills", int) if cursor else (0,)
    with access.read() as store:
        known, shown = Skills(store.crystals.connection, store.crystals.vectors), shown_of(store)
        found = known.listed(limit + 1, int(place))
        part = found[:limit]
        return SkillTable(
            tuple(SkillRow(shown(one.pattern), one.confidence, one.occurrences, one.sessions) for one in part),
            known.count(),
            written("skills", int(place) + len(part)) if len(found) > len(part) else None,
        )


@dataclass(frozen=True, slots=True)
class Levels:
    """The three levels at a moment, each in [0, 1]."""

    at: datetime
    dopamine: float
    cortisol: float
    oxytocin: float


@dataclass(frozen=True, slots=True)
class HormoneEvent:
    """What was felt, why, and the levels right after it."""

    event: str
    cause: str
    after: Levels


@dataclass(frozen=True, slots=True)
class HormoneCurve:
    """The levels now, what they fall back to, and how they were; the events the latest first, `more` beside them."""

    now: Levels
    mood: str
    baselines: Levels
    curve: tuple[Levels, ...]
    events: tuple[HormoneEvent, ...]
    more: int


@operation("hormones", reads=True)
def hormones(
    access: WorkspaceAccess,
    hours: Annotated[int, Arg(ge=1, le=168)] = 24,
    samples: Annotated[int, Arg("Moments of the curve, from then to now", ge=2, le=MOST)] = 96,
) -> HormoneCurve:
    """Return the hormone levels now and over the last hours, with the events that raised them."""
    now, span, last = utc_now(), timedelta(hours=hours), samples - 1
    moments = [now - span * (last - number) / last for number in range(samples)]
    with access.read() as store:
        shown = shown_of(store)
        levels = store.feelings.levels(now)
        events, count = store.feelings.events(now - span, now, MOST_EVENTS)
        return HormoneCurve(
            now=_levels(levels),
            mood=mood(levels),
            baselines=_levels(resting(now, store.feelings.baselines)),
            curve=tuple(map(_levels, store.feelings.levels_at(moments))),
            events=tuple(HormoneEvent(one.event, shown(one.cause), _levels(one.after)) for one in events),
            more=count - len(events),
        )


def _levels(levels: Hormones) -> Levels:
    return Levels(levels.at, *levels.levels)


@dataclass(frozen=True, slots=True)
class ForgottenText:
    """What is not learnt again, since when. `digest` tells whether two are the same, and nothing else.

    `kind`: text (wherever it stands), or memory (purged by a session, and known again as a whole). Where the receipt
    is not kept any more, `words` is None and `cut` (sentences, words) empty.
    """

    at: datetime
    digest: str
    kind: str
    words: int | None
    cut: str


@dataclass(frozen=True, slots=True)
class DeletedLine:
    """A line that the owner deleted from MEMORY.md; no dream writes it again."""

    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ForgottenTable:
    """A part of what stays forgotten, the latest first, of `total`; `withheld`: texts that were kept out so far.

    `deleted_lines` come with the first part, of `deleted_total` in all. Those are not forgotten: they are known.
    """

    forgotten: tuple[ForgottenText, ...]
    total: int
    withheld: int
    next_cursor: str | None
    deleted_lines: tuple[DeletedLine, ...]
    deleted_total: int


@operation("forgotten", reads=True)
def forgotten(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg(ge=1, le=MOST)] = 50,
    cursor: Annotated[str, Arg("next_cursor before", max_length=MAX_CHARACTERS)] = "",
) -> ForgottenTable:
    """Return what stays forgotten, without its words; and the lines that the owner deleted."""
    after = place_in(cursor, "forgotten", str, str) if cursor else ()
    with access.read() as store:
        connection, shown = store.crystals.connection, shown_of(store)
        found = forgotten_list(connection, limit + 1, after)
        part = found[:limit]
        lines, line_count = store.lineage.deleted_lines(0 if after else limit)
        return ForgottenTable(
            forgotten=tuple(
                ForgottenText(one.at, one.digest, "memory" if one.whole else "text", one.words, one.cut)
                for one in part
            ),
            total=forgotten_count(connection),
            withheld=store.crystals.forgotten.withheld(),
            next_cursor=written("forgotten", *part[-1].place) if len(found) > len(part) else None,
            deleted_lines=tuple(DeletedLine(shown(text), at) for text, at in lines),
            deleted_total=line_count,
        )
