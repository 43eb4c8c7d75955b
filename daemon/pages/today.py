"""Today: is all well, what is new, what wants its owner's word, and what the memory could not answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations.dreams import dream_now, dream_status, dreams
from daemon.api.operations.journal import (
    Changes,
    Numbers,
    ProposedChange,
    answer_proposals,
    changes,
    proposals,
)
from daemon.api.operations.memory import ChangeOfLine, change_lines, history, lines
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.signals import dismiss_question, gaps
from daemon.dream.proposals import Answered
from daemon.journal.story import Entry
from daemon.journal.summary import Kind, is_owners, local_day, summary
from daemon.pages.page import UNDO, Act, Ask, Beside, Done, Page, Start, Undo, undo_of
from daemon.workspace.status import Status, verdict
from graphs.review import LineAction
from state.document.operations import Why
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.dream import OWNERS
from state.errors import NotFoundError
from state.stores.history.lineage import Version
from state.text.words import counted

# So many changes, proposals, questions, runs and versions are read at once.
_CHANGES, _WAITING, _QUESTIONS, _RUNS, _VERSIONS = 12, 10, 5, 20, 200
_MORNING, _EVENING = 6, 18  # hours: what happened between an evening and a morning is of last night


def _today(ask: Ask, number: Start = 0) -> Beside:
    """Read how it stands, what is new, and what waits from the proposal `number` on."""
    status = ask(dream_status)
    runs = [one for one in ask(dreams, limit=_RUNS).dreams if one.run.outcome != "skipped" and not is_owners(one)]
    versions = [one for one in ask(history, limit=_VERSIONS).versions if one.cause not in OWNERS]
    since = _since(versions, ask.looked)
    entries = _by_dreams(ask(changes, limit=4 * _CHANGES, since=since)) if versions else []
    waiting = [one for one in ask(proposals).proposals if one.number >= number]
    asked, standing = ask(gaps, limit=_QUESTIONS, sort="times"), ask(lines, section=SectionName.GAPS)
    # Those that stand in MEMORY.md have a line.
    questions = [(line.text, line.id, 0) for one in standing.sections for line in one.lines if line.id]
    questions += [(one.question, "", one.times) for one in asked.gaps]
    news = [one for one in versions if one.number > since]
    return {
        "verdict": verdict(status),
        "began": _first_day(status),
        "when": _when(news, ask) if news else "",
        "counts": _counts(news),
        "entries": entries[:_CHANGES],
        "more_entries": len(entries[_CHANGES:]),
        "last": summary(runs[0]) if runs else None,
        "failed": runs[0] if runs and summary(runs[0]).kind == Kind.FAILED else None,
        "waiting": waiting[:_WAITING],
        "wait": waiting[_WAITING:],
        "questions": questions,
        "unanswered": len(questions) + asked.total - len(asked.gaps),
        "line_count": standing.count,
    }


def _since(versions: list[Version], looked: int | None) -> int:
    """Return the version after which all is new: that of the last look, or the one before the last day's dreams."""
    if not versions:
        return 0
    if looked is not None and looked < versions[0].number:
        return looked
    return min(one.number for one in versions if one.at.date() == versions[0].at.date()) - 1


def _when(news: list[Version], ask: Ask) -> str:
    """Say when what is new happened."""
    at, now = news[0].at, ask.now
    day = "Today" if at.date() == now.date() else f"On {local_day(at, now)}"
    if len(news) > 1:
        is_visit = ask.looked is not None and ask.looked < news[0].number
        return f"{'Since you looked last' if is_visit else day}, in {counted(len(news), 'dream')},"
    tonight = now.replace(hour=_MORNING, minute=0)
    if now.hour < _EVENING and tonight - timedelta(hours=24 + _MORNING - _EVENING) <= at < tonight:
        return "Last night"
    return f"{day} at {at:%H:%M}"


def _counts(news: list[Version]) -> Mapping[str, float]:
    return {
        "learnt": sum(one.added + one.recalled for one in news),
        "changed": sum(one.revised for one in news),
        "put away": sum(one.evicted + one.closed for one in news),
        "usd": sum(one.usd for one in news),
    }


def _by_dreams(found: Changes) -> list["Shown"]:
    """Return the changes of texts that dreams made and that still stand."""
    every = [shown(one) for one in found.changes if one.cause not in OWNERS]
    return [one for one in every if one and one.did != "same" and (one.undoable or one.did == "left")]


def _first_day(status: Status) -> Mapping[str, bool]:
    """Return the three things to begin with and whether each is done; nothing once all are."""
    steps = {
        "connect": status.last_bootstrap is not None,
        "note": bool(status.crystals or status.pending.notes),
        "dream": status.last_dream is not None and status.version > 0,
    }
    return {} if all(steps.values()) else steps


def _frame(ask: Ask, shown: str = "") -> Beside:  # noqa: ARG001 - for the template
    """Read what is above every page: where one is, what waits, whether it dreams, how the last dream ended."""
    ask(dream_status)
    return {}


# ------------------------------------------------------------------------------------------------ a change

_LEFT = {Why.EVICTED: "put away; a search finds it", Why.ANSWERED: "answered", Why.DELETED: "deleted"}
_SAME = {Why.MOVED: "moved", Why.WEIGHED: "counts more or less than before", Why.PINNED: "pinned or unpinned"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A change as a person reads it: what it did to a line, its texts, and a word beside them."""

    name: str
    did: str
    old: str
    new: str
    note: str
    line: str
    undoable: bool


def shown(one: Entry) -> Shown | None:
    """Return a change for a person; None of pointers alone, which the program writes."""
    if one.section == SectionName.POINTERS:
        return None
    pointers = [parsed for line in one.new if (parsed := parse_pointer(line.text))] if one.why == Why.EVICTED else []
    old = [line for line in one.old if not pointers or parse_pointer(line.text) is None]
    new = () if pointers else one.new
    old_text, new_text = ("\n".join(line.text for line in lines) for lines in (old, new))
    did = "left" if not new else "added" if not old else "same" if old_text == new_text else "changed"
    note = _word_beside(one, did)
    if pointers:
        note = f"put away; a search for “{pointers[0][1]}” finds it"
    line = (new or old)[-1].id
    return Shown(one.name, did, old_text, new_text, note, line, one.undoable)


def _word_beside(one: Entry, did: str) -> str:
    """Return the word beside a change that its texts do not say."""
    if did == "left":
        return _LEFT.get(Why(one.why), "taken back")
    if did == "same":
        return f"moved to {one.section}" if one.why == Why.MOVED else _SAME.get(Why(one.why), "")
    return (
        "brought back"
        if one.why in (Why.RECALLED, Why.UNDONE)
        else "two lines became one"
        if len(one.old) > 1
        else ""
    )


# ------------------------------------------------------------------------------------------------ acts

Chosen = Annotated[Numbers, Field(min_length=1)]
Words = Annotated[str, Field(min_length=1, max_length=16_384)]
LineId = Annotated[str, Field(pattern=r"^(L\d{1,9})?$")]


def _dream(ask: Ask) -> Done:
    """Ask for a dream; the page shows how it goes."""
    done = ask(dream_now, wait=False)
    if done.outcome is None:
        return Done("It dreams as soon as it can. What comes of it shows here and above.")
    number = done.outcome.dream.number
    return Done(f"It dreamt, and MEMORY.md is at version {number}.", version=number)


def _answer(ask: Ask, verdict: Literal["accept", "decline"], number: Chosen) -> Done:
    """Accept or decline proposals."""
    answers: dict[str, Numbers] = {verdict: number}
    done = ask(answer_proposals, **answers)
    return Done(_said_of(done), f"{verdict} {_listed(number)}", done.version, undo_of(done.version, "the answer"))


def _said_of(done: Answered) -> str:
    """Say what became of answers, in words of people."""
    said = [
        f"{counted(len(ones), 'change')} {word}"
        for ones, word in ((done.accepted, "accepted"), (done.declined, "declined"), (done.outdated, "out of date"))
        if ones
    ]
    said += [f"already {answer}" for answer in dict.fromkeys(one.answer for one in done.already)]
    said += [f"not possible: {one.refusal.figures}" for one in done.refused]
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def _rewrite(ask: Ask, number: Annotated[int, Field(ge=1, le=10**9)], text: Words) -> Done:
    """Write the line oneself in place of what is proposed."""
    one = next((one for one in ask(proposals).proposals if one.number == number), None)
    if one is None:
        raise NotFoundError("this does not wait any more: it was answered or its line has changed", "look again")
    if text.strip() == one.new:
        return _answer(ask, "accept", (number,))
    written = ask(change_lines, changes=tuple(_own_words(one, text)))
    answered = ask(answer_proposals, decline=(number,))
    made = tuple(str(version) for version in (answered.version, written.version) if version is not None)
    undo = Undo("undo", {"made": made}, what="your own words")
    return Done("The line says it in your words.", f"rewrite {number}", written.version, undo)


def _own_words(one: ProposedChange, text: str) -> list[ChangeOfLine]:
    """Return the changes that put the owner's words in place of the lines of a proposal."""
    if not one.old:
        return [ChangeOfLine(action=LineAction.ADD, section=one.section, text=text)]
    first, *others = one.old
    return [
        ChangeOfLine(action=LineAction.EDIT, section=one.section, expected=first, text=text),
        *(ChangeOfLine(action=LineAction.DELETE, section=one.section, expected=each) for each in others),
    ]


def _note(ask: Ask, text: Words, question: str = "", line: LineId = "") -> Done:
    """Note something; of an open question, the answer: then it is asked no more."""
    asked = re.sub(r"[\s?？؟]+$", "", question)
    ask(working_memory_note, f"{asked}: {text}" if asked else text, replaces=line)
    if asked and not line:
        ask(dismiss_question, question)
    return Done("Noted. Your agent reads it from its next start on, and the next dream takes it in.", "a note")


def _dismiss(ask: Ask, question: Words, line: LineId = "", undo: bool = False) -> Done:
    """Close an open question that is not important, or open it again; one that stands in a line is deleted."""
    said = "Not important: it is not shown any more."
    if line:
        gone = ChangeOfLine(action=LineAction.DELETE, line=line, expected=question)
        version = ask(change_lines, changes=(gone,)).version
        return Done(said, f"delete {line}", version, undo_of(version, "the question"))
    ask(dismiss_question, question, undo=undo)
    back = {"question": question} if undo else {"question": question, "undo": "true"}
    return Done("It is asked again." if undo else said, "a question", undo=Undo("dismiss", back, what="the question"))


def _listed(numbers: Numbers) -> str:
    more = f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    return f"{', '.join(map(str, numbers[:20]))}{more}"


DREAM = Act(_dream, "dream", long=True)
_ACTS = (
    DREAM,
    Act(_answer, "answer", long=True),
    Act(_rewrite, "rewrite", long=True),
    Act(_note, "note"),
    Act(_dismiss, "dismiss", long=True),
    UNDO,
)
TODAY = Page("today", "Today", _today, acts=_ACTS, live=True)
FRAME = Page("frame", "Frame", _frame)
