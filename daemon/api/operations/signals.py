"""Operations on signals: hormones now and over time, open questions, emerging skills, forgotten texts."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Annotated, Literal

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.shapes import one_row
from daemon.ingest.feelings import feel
from daemon.workspace.stores import utc_now
from state.errors import NotFoundError
from state.signals.curiosity import Cause, Gap
from state.signals.hormones import Feeling, Hormones, mood, resting
from state.signals.skills import EmergingSkill
from state.stores.crystals.hormones import Feelings, Felt
from state.stores.crystals.skills import emerging_skills
from state.stores.database.tables import DeletedLine
from state.stores.erasing.intent import Forgotten, forgotten_list
from state.text.words import counted

MOST = 500
MOST_EVENTS = 100
_BAR = 20

Limit = Annotated[int, Arg(ge=1, le=MOST)]


@dataclass(frozen=True, slots=True)
class Mood:
    """The current hormone levels, each in [0, 1], the mood they make, and the baselines they decay to.

    `curve` has the levels over the requested hours, `events` what raised them, latest first, with the levels right
    after each; `more` counts the events left out.
    """

    now: Hormones
    mood: str
    baselines: Hormones
    curve: tuple[Hormones, ...] = ()
    events: tuple[Felt, ...] = ()
    more: int = 0


def mood_text(levels: Mood) -> str:
    """Show the levels, the mood, and the events of the requested hours that raised them."""
    every = zip(("dopamine", "cortisol", "oxytocin"), levels.now.levels, strict=True)
    rows = [f"{name:<9} {level:.2f} {'█' * round(level * _BAR):<{_BAR}}".rstrip() for name, level in every]
    felt = [f"{one.after.at:%Y-%m-%d %H:%M %Z}  {one.event}  {one_row(one.cause)}".rstrip() for one in levels.events]
    more = [f"and {counted(levels.more, 'other event')}"] if levels.more else []
    return "\n".join([*rows, f"mood      {levels.mood}", *felt, *more])


@operation("feel", text=mood_text)
def feel_event(
    access: WorkspaceAccess,
    event: Feeling,
    because: Annotated[str, Arg("What raised it", max_length=2_000)] = "",
) -> Mood:
    """Raise a hormone event: what just happened mattered.

    Levels weigh what the next dream keeps.
    """
    with access.write() as store:
        now = utc_now()
        feel(store, [event], store.config.redaction.of(because), now, now)
        levels = _mood_of(store.feelings, now)
    access.mark_changed()
    return levels


@operation("mood", reads=True, text=mood_text)
def current_mood(
    access: WorkspaceAccess,
    hours: Annotated[int, Arg("How far back the curve and the events go; 0: without them", ge=0, le=168)] = 0,
    samples: Annotated[int, Arg("Moments of the curve, from then to now", ge=2, le=MOST)] = 96,
) -> Mood:
    """Return the hormone levels now, and over the last hours with the events that raised them."""
    now, span, last = utc_now(), timedelta(hours=hours), samples - 1
    moments = [now - span * (last - number) / last for number in range(samples)]
    with access.read() as store:
        feelings = store.feelings
        if not hours:
            return _mood_of(feelings, now)
        shown = store.shown
        events, count = feelings.events(now - span, now, MOST_EVENTS)
        return replace(
            _mood_of(feelings, now),
            curve=tuple(feelings.levels_at(moments)),
            events=tuple(replace(one, cause=shown(one.cause)) for one in events),
            more=count - len(events),
        )


def _mood_of(feelings: Feelings, now: datetime) -> Mood:
    levels = feelings.levels(now)
    return Mood(levels, mood(levels), resting(now, feelings.baselines))


@dataclass(frozen=True, slots=True)
class GapTable:
    """The requested open questions, out of `total`."""

    gaps: tuple[Gap, ...]
    total: int


@operation("gaps", reads=True)
def gaps(
    access: WorkspaceAccess,
    limit: Limit = 50,
    cause: Cause | None = None,
    sort: Literal["times", "first_at", "last_at"] = "last_at",
) -> GapTable:
    """Return the open questions: what was asked and is not answered yet; the most often or the latest asked first."""
    with access.read() as store:
        found = sorted(store.questions.all(cause), key=attrgetter(sort, "question"), reverse=True)
        shown = store.shown
        return GapTable(tuple(replace(one, question=shown(one.question)) for one in found[:limit]), len(found))


@dataclass(frozen=True, slots=True)
class DismissedQuestion:
    """The question, and whether it is open again (`undone`)."""

    question: str
    undone: bool


@operation("dismiss_question")
def dismiss_question(
    access: WorkspaceAccess,
    question: Annotated[str, Arg("As the open questions have it", min_length=1, max_length=1_000)],
    undo: Annotated[bool, Arg("It is open again")] = False,
) -> DismissedQuestion:
    """Close an open question that is not important: it is shown no more, however often it is asked."""
    with access.write() as store:
        if not store.questions.dismiss(question, undo=undo):
            raise NotFoundError("no such question is open", "the operation gaps lists them")
    access.mark_changed()
    return DismissedQuestion(question, undo)


@dataclass(frozen=True, slots=True)
class SkillTable:
    """The skills, most confident first."""

    skills: tuple[EmergingSkill, ...]
    total: int


@operation("skills", reads=True)
def skills(access: WorkspaceAccess, limit: Limit = 50) -> SkillTable:
    """Return the emerging skills: tasks that came back in different sessions."""
    with access.read() as store:
        found, shown = emerging_skills(store.crystals), store.shown
        return SkillTable(tuple(replace(one, pattern=shown(one.pattern)) for one in found[:limit]), len(found))


@dataclass(frozen=True, slots=True)
class ForgottenTable:
    """The latest forgotten texts, out of `total`; `withheld` counts new texts that were kept out because of them.

    `deleted_lines` are the latest of `deleted_total`; their texts are not forgotten but still known.
    """

    forgotten: tuple[Forgotten, ...]
    total: int
    withheld: int
    deleted_lines: tuple[DeletedLine, ...]
    deleted_total: int


@operation("forgotten", reads=True)
def forgotten(access: WorkspaceAccess, limit: Limit = 50) -> ForgottenTable:
    """Return what stays forgotten, without its words; and the lines that the owner deleted."""
    with access.read() as store:
        shown, found = store.shown, forgotten_list(store.connection)
        lines, line_count = store.lineage.deleted_lines(limit)
        return ForgottenTable(
            forgotten=tuple(found[:limit]),
            total=len(found),
            withheld=store.crystals.forgotten.withheld(),
            deleted_lines=tuple(replace(one, text=shown(one.text)) for one in lines),
            deleted_total=line_count,
        )
