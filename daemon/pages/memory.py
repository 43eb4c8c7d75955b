"""Memory: the lines of MEMORY.md as they are and as they were on a day, what a search finds, and one line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Annotated, Any

from pydantic import Field

from daemon.api.operations.journal import proposals
from daemon.api.operations.memory import ChangeOfLine, change_lines, history, lines, memory_as_of
from daemon.api.operations.search import memory_why
from daemon.api.operations.sessions import session_list
from daemon.dream.standing import Line, SectionLines, StandingLines
from daemon.journal.crystal import Evidence
from daemon.pages.found import Chosen, found
from daemon.pages.page import UNDO, Act, Ask, Beside, Cursor, Day, Done, Page, Start, start_of_day, undo_of
from daemon.pages.templates import day, mark
from daemon.pages.today import shown
from graphs.review import LineAction
from state.changes.values import Span
from state.document.sections import SectionName
from state.dream import OWNERS, OWNERS_EDITS
from state.errors import NotFoundError
from state.stores.history.lineage import Version
from state.zone import instant, local

# So many headings and lines at once, sessions, and versions as ticks of the days that can be chosen.
_LINES, _SESSIONS, _TICKS = 300, 12, 90
_WEEK_DAYS = 7
# What each section is about, in words for its owner.
_ABOUT: Mapping[str, str] = {
    SectionName.PHENOTYPE: "who your agent is",
    SectionName.BOND: "you, and how you want things",
    SectionName.NICHE: "what it is good for beside others",
    SectionName.CONTEXT: "what is under way",
    SectionName.POINTERS: "what was put away, and the words that find it",
    SectionName.GAPS: "what it could not answer",
    SectionName.SKILLS: "what it does again and again",
}
_DEEDS = (("added", "learnt"), ("revised", "changed"), ("evicted", "put away"))
_UNDONE = {
    LineAction.EDIT: "the edit",
    LineAction.DELETE: "the deletion",
    LineAction.PIN: "the pin",
    LineAction.UNPIN: "the unpinning",
    LineAction.ADD: "the new line",
}
_CHANGED = {
    LineAction.EDIT: "The line says it in your words",
    LineAction.DELETE: "The line is gone, and is not written again",
    LineAction.PIN: "The line is pinned: no dream changes it",
    LineAction.UNPIN: "The line is not pinned any more",
    LineAction.ADD: "The line is in MEMORY.md",
}


class MemoryQuery(Chosen):
    """The address of the page: which lines of which day, or what is searched."""

    start: Start = 0
    changed: Day | None = Field(default=None, description="Only the lines that came on this day or later")
    sessions: Cursor = ""


def _memory(ask: Ask, **fields: Any) -> Beside:  # noqa: ANN401 - those of MemoryQuery
    """Read the file, as it is or as it was at the end of a day; or search."""
    asked = MemoryQuery(**fields)
    today = local(ask.now, ask.access.config.zone).date()
    if asked.is_asked:
        return {"searches": True, **found(ask, asked)}
    then = asked.as_of if asked.as_of and asked.as_of < today else None
    if then:
        ask(memory_as_of, start_of_day(then + timedelta(days=1)), limit=_LINES, start=asked.start)
        shown: Beside = {"kept": lambda section: section.lines}
    else:
        shown = _now(ask, asked, today)
    slider = slider_of(ask(history, limit=_TICKS).versions, then, ask.access.config.zone, today)
    values = {"is_then": then is not None, "slider": slider, "about": _ABOUT, "next_start": asked.start + _LINES}
    return {"searches": False, **values, **shown}


def _now(ask: Ask, asked: MemoryQuery, today: date) -> Beside:
    """Read the file as it is, with the sessions below it."""
    reply, zone = ask(lines, start=asked.start, limit=_LINES), ask.access.config.zone
    ask(session_list, limit=_SESSIONS, cursor=asked.sessions)
    fresh, week = (instant(start_of_day(today - timedelta(days=days)), zone) for days in (1, _WEEK_DAYS))
    wanted = instant(start_of_day(asked.changed), zone) if asked.changed else None
    ends = {one.id: one.until for section in reply.sections for one in section.lines if one.until}
    return {
        "kept": lambda section: _since(section, wanted) if wanted else section.lines,
        "fresh": fresh,
        "week": week,
        "yesterday": today - timedelta(days=1),
        "count": sum(len(_since(one, fresh)) for one in reply.sections),
        # Since when lines are over whose last day is past.
        "over": {
            id_: date.fromisoformat(end) + timedelta(days=1) for id_, end in ends.items() if end < today.isoformat()
        },
        "places": {name.value: name.value for name in SectionName},
    }


def _since(section: SectionLines, moment: datetime) -> tuple[Line, ...]:
    """Return the lines that came since a moment, of the seven sections also those that no dream has read yet."""
    return tuple(
        one for one in section.lines if (one.born_at >= moment if one.born_at is not None else section.name != "")
    )


@dataclass(frozen=True, slots=True)
class Slider:
    """The days from `first` to `last` that can be looked at, and the chosen one.

    `ticks` are the days on which a version was made: their places, in thousandths, and what came and went.
    """

    first: date
    last: date
    chosen: date
    ticks: tuple[tuple[int, str], ...]

    def at(self, day: date) -> int:
        """Return a day's number, the first being 0."""
        return (day - self.first).days


def slider_of(versions: Sequence[Version], chosen: date | None, zone: tzinfo, today: date) -> Slider | None:
    """Return the days since the first of these versions; None if all are of today."""
    days = dict[date, list[Version]]()
    for one in reversed(versions):
        days.setdefault(min(local(one.at, zone).date(), today), []).append(one)
    first = min([*days, chosen or today])
    if first == today:
        return None
    span = (today - first).days
    ticks = ((1000 * (at - first).days // span, f"{day(at, today)}: {_came(made)}") for at, made in days.items())
    return Slider(first, today, chosen or today, tuple(ticks))


def _came(versions: Sequence[Version]) -> str:
    sums = [(sum(getattr(one, name) for one in versions), word) for name, word in _DEEDS]
    return ", ".join(f"{count} {word}" for count, word in sums if count) or "saved"


def _change_line(ask: Ask, **fields: Any) -> Done:  # noqa: ANN401 - the fields of ChangeOfLine
    one = ChangeOfLine(**fields)
    done = ask(change_lines, changes=(one,))
    also = "; the file was saved in the same moment, and holds both" if done.merged else ""
    said = f"{_CHANGED[one.action]}. MEMORY.md is at version {done.version}{also}."
    return Done(
        said, f"{one.action.value} {one.line or 'a line'}", done.version, undo_of(done.version, _UNDONE[one.action])
    )


_EDITING = (Act(_change_line, "change", long=True, own_form=ChangeOfLine), UNDO)
MEMORY = Page("memory", "Memory", _memory, acts=_EDITING, live=True, own_query=MemoryQuery)

# ------------------------------------------------------------------------------------------------ one line


def _line(
    ask: Ask,
    id: Annotated[str, Field(pattern=r"^(?:L\d{1,9})?$")] = "",
    mark: Annotated[str, Field(pattern="^(?:[0-9a-f]{20})?$")] = "",
) -> Beside:
    """Read a line by its id, or one that no version knows yet by the mark of its text."""
    # Of a line that no version knows there is nothing to tell but that it is there.
    known = ask(memory_why, text=id).lines if id else ()
    story = next((one for one in known if one.id == id), None)
    section, line = _standing(ask(lines, section=SectionName(story.section) if story else None), id, mark)
    if not id and line is None:
        raise NotFoundError("this line is not in MEMORY.md any more", "go back to the memory")
    waiting = ask(proposals).proposals if line is not None and line.proposed else ()
    text, spans = (line.text, line.unsupported) if line else (story.text, ()) if story else ("", ())
    return {
        "section": section,
        "line": line,
        "story": story,
        "parts": list(_parts(text, spans)),
        "notes": _notes(story.evidence) if story else [],
        "owners": story is None or (story.writing is not None and story.writing.cause in OWNERS_EDITS),
        "proposal": next((one for one in waiting if line is not None and one.number == line.proposed), None),
        "changes": [(one, it) for one in story.entries if (it := shown(one))] if story else [],
        "causes_of_owner": OWNERS,
    }


def _standing(standing: StandingLines, id_: str, marked: str) -> tuple[str, Line | None]:
    """Return the line that is meant with its section, if it is in the file."""
    for section in standing.sections:
        for line in section.lines:
            if line.id == id_ if id_ else marked and not line.id and mark(line.text) == marked:
                return section.name, line
    return "", None


def _parts(text: str, unsupported: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Yield the text in parts, each with whether no evidence has it."""
    end = 0
    for span in unsupported:
        yield text[end : span.start], False
        yield text[span.start : span.end], True
        end = span.end
    yield text[end:], False


def _notes(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return what was said, the newest first, without what only a part of the evidence was made of."""
    derived_from = {parent for piece in evidence for parent in piece.parents}
    said = [one for one in evidence if one.at is not None and one.id not in derived_from]
    return sorted(said, key=lambda one: str(one.at), reverse=True)


LINE = Page("line", "Line", _line, under="memory")
