"""Views: the pages that have a template of their own, each with the operations that it asks and what is done there.

The text that is to be forgotten is in the body of a form alone: in no address, no log, no row of the ledger.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import Field

from daemon.api.operations import sessions
from daemon.api.operations.crystals import crystal, crystals, supersede
from daemon.api.operations.dreams import dream_details, dream_now, dream_status, dreams
from daemon.api.operations.journal import (
    ChangeName,
    Numbers,
    answer_proposals,
    answered_text,
    changes,
    proposals,
    undo_changes,
    undone_text,
)
from daemon.api.operations.memory import ChangeOfLine, change_lines, lines, restore_version
from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.search import memory_search, memory_why
from daemon.api.operations.signals import current_mood, forgotten
from daemon.api.operations.table import OPERATIONS
from daemon.api.operations.upkeep import MAX_CHARACTERS, MAX_KEPT, forget_text
from daemon.dream.standing import Line, StandingLines
from daemon.pages.page import UNDO, Act, Ask, Cursor, Day, Done, Page, Start, Undo, Version, start_of_day, undo_of
from daemon.pages.templates import mark, short
from daemon.upkeep.forget import Receipt
from graphs.review import LineAction
from state.crystals.crystal import Kind, Origin
from state.document.sections import SectionName
from state.errors import NotFoundError, UsageError
from state.stores.crystals.listing import Sort
from state.text.words import counted
from state.trust import Trust

Beside = Mapping[str, object]

# ------------------------------------------------------------------------------------------------ now, the frame


def _now(ask: Ask) -> Beside:
    ask(dream_status)
    ask(current_mood)
    return {}


def _frame(ask: Ask, shown: str = "") -> Beside:  # noqa: ARG001 - for the template
    """Read what is above every page: where one is, what waits, whether it dreams."""
    ask(dream_status)
    return {}


def _dream(ask: Ask) -> Done:
    """Ask for a dream; the page shows how it goes."""
    done = ask(dream_now, wait=False)
    if done.outcome is None:
        return Done("A dream was asked for: it shows here as it runs.")
    number = done.outcome.dream.number
    return Done(f"It dreamt: MEMORY.md is at version {number}.", version=number)


DREAM = Act(_dream, "dream", long=True)
NOW = Page("now", "Now", _now, acts=(DREAM,), live=True)
FRAME = Page("frame", "Frame", _frame)

# ------------------------------------------------------------------------------------------------ review

# So many at once; what waits comes first.
_WAITING, _LATEST = 60, 10
Chosen = Annotated[Numbers, Field(min_length=1)]


def _review(ask: Ask, number: Start = 0) -> Beside:
    """Read what waits from the proposal `number` on, and the latest changes."""
    waiting = [one for one in ask(proposals).proposals if one.number >= number]
    ask(changes, limit=_LATEST)
    shown = waiting[:_WAITING]
    order = list(dict.fromkeys(one.section for one in shown))
    chosen = sorted(shown, key=lambda one: order.index(one.section))
    return {
        "every": [one.number for one in shown],
        "sections": [(section.value, list(group)) for section, group in groupby(chosen, key=lambda one: one.section)],
        "wait": waiting[_WAITING:],
    }


def _answer(ask: Ask, verdict: Literal["accept", "decline"], number: Chosen) -> Done:
    """Accept or decline proposals."""
    answers: dict[str, Numbers] = {verdict: number}
    done = ask(answer_proposals, **answers)
    return Done(answered_text(done), f"{verdict} {_listed(number)}", done.version, undo_of(done.version))


def _take_back(ask: Ask, name: ChangeName) -> Done:
    """Undo a change of any version."""
    done = ask(undo_changes, changes=(name,))
    return Done(undone_text(done), f"undo {name}", done.version, undo_of(done.version))


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    return f"{', '.join(map(str, numbers[:20]))}{more}"


_ANSWERS = (Act(_answer, "answer", long=True), Act(_take_back, "take_back", long=True), UNDO)
REVIEW = Page("review", "Review", _review, acts=_ANSWERS, live=True)

# ------------------------------------------------------------------------------------------------ memory

# So many headings and lines at once.
_LINES = 60
_CHANGED = {
    LineAction.EDIT: "The line says it in your words",
    LineAction.DELETE: "The line is gone, and is not written again",
    LineAction.PIN: "The line is pinned: no dream changes it",
    LineAction.UNPIN: "The line is not pinned any more",
    LineAction.WRONG: "What was wrong holds no longer, and is not written again",
    LineAction.ADD: "The line is in MEMORY.md",
}


def _memory(ask: Ask, start: Start = 0) -> Beside:
    ask(lines, start=start, limit=_LINES)
    return {"sections": [name.value for name in SectionName], "next_start": start + _LINES}


def _line(
    ask: Ask,
    id: Annotated[str, Field(pattern=r"^(?:L\d{1,9})?$")] = "",
    mark: Annotated[str, Field(pattern="^(?:[0-9a-f]{20})?$")] = "",
) -> Beside:
    """Read a line by its id, or one that no version knows yet by the mark of its text."""
    section, line = _standing(ask(lines), id, mark)
    if not id and line is None:
        raise NotFoundError("this line is not in MEMORY.md any more", "go back to the memory")
    # Of a line that no version knows there is nothing to tell but that it is there.
    known = ask(memory_why, text=id).lines if id else ()
    history = next((one for one in known if one.id == id), None)
    evidence = history.evidence if history is not None else ()
    derived_from = {parent for piece in evidence for parent in piece.parents}
    notes = [one for one in evidence if one.text and not one.superseded_by and one.id not in derived_from]
    return {"section": section, "line": line, "history": history, "notes": notes}


def _standing(standing: StandingLines, id_: str, marked: str) -> tuple[str, Line | None]:
    """Return the line that is meant with its section, if it is in the file."""
    for section in standing.sections:
        for line in section.lines:
            if line.id == id_ if id_ else marked and not line.id and mark(line.text) == marked:
                return section.name, line
    return "", None


def _change_line(ask: Ask, **fields: Any) -> Done:  # noqa: ANN401 - the fields of ChangeOfLine
    one = ChangeOfLine(**fields)
    done = ask(change_lines, changes=(one,))
    also = "; the file was saved in the same moment, and holds both" if done.merged else ""
    said = f"{_CHANGED[one.action]}. MEMORY.md is at version {done.version}{also}."
    return Done(said, f"{one.action.value} {one.line or 'a line'}", done.version, undo_of(done.version))


_EDITING = (Act(_change_line, "change", long=True, own_form=ChangeOfLine), UNDO)
MEMORY = Page("memory", "Memory", _memory, acts=_EDITING, live=True)
LINE = Page("line", "Line", _line, under="memory")

# ------------------------------------------------------------------------------------------------ dreams

_RUNS = 40
# Of each list of one dream, of the characters of a text, a prompt and the difference so much, and on its whole page.
_FIRST = {"rows": 8, "text": 300, "prompt": 500, "diff": 4_000}
_WHOLE = {"rows": 200, "text": 2_000, "prompt": 20_000, "diff": 200_000}

Outcome = Literal["", "committed", "skipped", "rejected", "failed", "running"]


def _dreams(
    ask: Ask,
    outcome: Outcome = "",
    cursor: Annotated[str, Field(max_length=100)] = "",
) -> Beside:
    found = ask(dreams, limit=_RUNS, cursor=cursor, outcome=outcome)
    ran = [one for one in reversed(found.dreams) if one.run.outcome != "skipped"]
    every = (("tokens", [float(one.spent.tokens) for one in ran]), ("seconds", [one.seconds for one in ran]))
    # A curve of fewer says nothing.
    curves = [(name, values) for name, values in every if len(ran) > 2 and any(values)]
    return {"outcomes": Outcome.__args__[1:], "curves": curves}  # type: ignore[attr-defined]


def _one_dream(
    ask: Ask, dream: Annotated[str, Field(max_length=100)] = "", version: Version | None = None, whole: bool = False
) -> Beside:
    """Read one dream, with the seconds and tokens of each node's steps, in the order in which each first ended."""
    shares: dict[str, tuple[float, int]] = {}
    for step in ask(dream_details, dream=dream, version=version).steps:
        span, tokens = shares.get(step.node, (0.0, 0))
        shares[step.node] = span + step.seconds, tokens + step.tokens
    ask(dream_status)
    return {
        "most": _WHOLE if whole else _FIRST,
        "shares": [(node, *share) for node, share in shares.items()],
        "bars": [(f"{node}: {span:.1f} s", span) for node, (span, _) in shares.items()],
    }


def _restore(ask: Ask, version: Version) -> Done:
    number = ask(restore_version, version).dream.number
    said = f"MEMORY.md is as it was in version {version}, and that is version {number} now."
    return Done(said, f"version {version}", number, undo_of(number))


DREAMS = Page("dreams", "Dreams", _dreams, acts=(DREAM, Act(_restore, "restore", long=True), UNDO), live=True)
ONE_DREAM = Page("dream", "Dream", _one_dream, live=True, under="dreams")

# ------------------------------------------------------------------------------------------------ search, crystal

_FEW, _MOST, _STEP = 10, 50, 15
_LISTED = 30
# What the signals of a result are called for people, in the order of their weights.
_SIGNALS: Mapping[str, tuple[str, str]] = {
    "cosine": ("meaning", "it says what was asked for"),
    "near": ("words", "the words of the question stand in or about it"),
    "beside": ("neighbours", "what stands beside it says what was asked for"),
    "session": ("session", "the words stand elsewhere in its session"),
    "speaker": ("speaker", "who was named said it"),
    "period": ("time", "it is of the time that was asked for"),
    "instruction": ("instruction", "it tells an agent what to do whenever something is asked"),
    "reply": ("reply", "an agent's reply is no answer to what a person said: it is taken off"),
}
_CHOICES = {"origin": list(Origin), "kind": list(Kind), "trust": list(Trust), "sort": list(Sort)}
Named = Annotated[str | None, Field(max_length=1_000)]


def _search(
    ask: Ask,
    query: Annotated[str, Field(max_length=2_000)] = "",
    limit: Annotated[int, Field(ge=1, le=_MOST)] = _FEW,
    origin: Origin | None = None,
    kind: Kind | None = None,
    trust: Trust | None = None,
    session: Named = None,
    speaker: Named = None,
    since: Day | None = None,
    until: Day | None = None,
    as_of: Day | None = None,
    all: bool = False,
    archived: bool = False,
    sort: Sort = Sort.CREATED_AT,
    cursor: Cursor = "",
) -> Beside:
    """Search, or without a question list the crystals."""
    among: dict[str, Any] = {"origin": origin, "kind": kind, "trust": trust, "session": session, "speaker": speaker}
    among |= {"since": start_of_day(since), "until": start_of_day(until)}
    filtered = archived or any(one is not None for one in (*among.values(), as_of))
    beside: dict[str, object] = {"signals": _SIGNALS, "choices": _CHOICES, "filtered": filtered, "reply": None}
    if not query.strip():
        return beside | {"listed": ask(crystals, **among, sort=sort, limit=_LISTED, cursor=cursor)}
    known = start_of_day(as_of + timedelta(days=1)) if as_of else None
    reply = ask(
        memory_search, query, limit, **among, as_of=known, all=all, archived=archived, explain=True, look=True
    )
    more = min(_MOST, limit + _STEP) if limit <= len(reply.hits) < _MOST else None
    return beside | {"reply": reply, "more": more}


def _crystal(ask: Ask, id: Annotated[str, Field(min_length=8, max_length=32, pattern="^[0-9a-f]+$")]) -> Beside:
    found = ask(crystal, id=id)
    others = (*found.superseded_by, *found.supersedes)
    holding = {other.crystal.id for other in others if other.undone_at is None}
    undone = {other.crystal.id: other.crystal for other in others if other.crystal.id not in holding}
    return {
        "found": found,
        "one": found.crystal,
        "values": [  # without those that the owner took back
            (title, [other for other in each if other.undone_at is None])
            for title, each in (("Superseded by", found.superseded_by), ("Supersedes", found.supersedes))
        ],
        "undone": list(undone.values()),
    }


Which = Annotated[str, Field(min_length=1, max_length=10_000)]


def _supersede(ask: Ask, older: Which, newer: Which, undo: Literal["true", "false"] = "false") -> Done:
    """Say which of two crystals holds now; with `undo` that both do."""
    done = ask(supersede, older, newer, undo == "true")
    pair, names = {"older": older, "newer": newer}, f"{older[:12]} and {newer[:12]}"
    if undo == "true":
        return Done("Both hold.", f"both hold: {names}", undo=Undo("supersede", pair), query={"id": older})
    back = {"older": newer, "newer": older} if done.turned else {**pair, "undo": "true"}
    said = f"{newer[:12]} holds now, {older[:12]} does not. The next dream sees to the lines that rest on it."
    about = f"superseded: {older[:12]} by {newer[:12]}"
    return Done(said, about, undo=Undo("supersede", back), query={"id": older})


SEARCH = Page("search", "Search", _search)
CRYSTAL = Page("crystal", "Crystal", _crystal, acts=(Act(_supersede, "supersede"),), under="search")

# ------------------------------------------------------------------------------------------------ sessions

_MEMORIES, _LEAVING, _LEFT = 15, 8, 5
Session = Annotated[str, Field(min_length=1, max_length=10_000)]
Memory = Annotated[str, Field(min_length=1, max_length=1_000)]


def _sessions(ask: Ask, cursor: Cursor = "", limit: Annotated[int, Field(ge=1, le=100)] = 50) -> Beside:
    ask(sessions.session_list, limit=limit, cursor=cursor)
    return {}


def _session(ask: Ask, session_id: Session, cursor: Cursor = "", left: Cursor = "") -> Beside:
    """Read a session: from which memory on, and from which that left."""
    of = {"session_id": session_id}
    ask(sessions.session_summary, **of)
    ask(sessions.stats, **of)
    every = {"include_expired": True, "include_promoted": True}
    ask(sessions.list_memories, **of, limit=_MEMORIES, cursor=cursor, **every)
    ask(sessions.preview, **of, limit=_LEAVING)
    ask(sessions.session_archive, **of, limit=_LEFT, cursor=left)
    return {}


def _change_memory(
    ask: Ask, session_id: Session, memory_id: Memory, verdict: Literal["promote", "forget", "restore"]
) -> Done:
    """Promote, softly forget or restore a memory. The ledger gets its number: its id holds words of it."""
    memory = {"session_id": session_id, "memory_id": memory_id}
    numbers = [event.seq for event in ask(sessions.events, **memory, limit=1).events]
    about = f"{verdict} memory {', '.join(map(str, numbers))} of {_called(session_id)}"
    undo = None
    if verdict == "promote":
        ask(sessions.promote, **memory)
        said = "It is a crystal now: a search finds it."
    elif verdict == "forget":
        ask(sessions.forget, session_id=session_id, instruction=f"id:{memory_id}", mode="soft")
        said = "It is hidden, and the first to leave."
        undo = Undo("change", {**memory, "verdict": "restore"})
    else:
        done = ask(sessions.restore, **memory)
        gone = f" {len(done.evicted)} had to leave for it: {done.evicted[0].reason}." if done.evicted else ""
        said = f"It is in the session again.{gone}" if done.restored else "There was no place for it: it left again."
    return Done(said, about, undo=undo, query={"session_id": session_id})


def _sweep(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.sweep, session_id=session_id)
    said = f"Swept: {done.archived} to the archive, {done.promoted} to crystals, {done.refused} refused."
    about = f"{_called(session_id)}: {done.archived} archived, {done.promoted} promoted"
    return Done(said, about, query={"session_id": session_id})


def _close(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.close, session_id=session_id)
    said = f"The session is closed: {done.archived} left for the archive, and the next dream takes in what mattered."
    return Done(said, f"{_called(session_id)}: {done.archived} archived", query={"session_id": session_id})


def _called(session_id: str) -> str:
    """Return what the ledger calls a session."""
    return f"session {short(session_id, 60)}"


_MINDING = (Act(_change_memory, "change"), Act(_sweep, "sweep"), Act(_close, "close"))
SESSIONS = Page("sessions", "Sessions", _sessions, live=True)
SESSION = Page("session", "Session", _session, acts=_MINDING, live=True, under="sessions")

# ------------------------------------------------------------------------------------------------ forget

_FORGOTTEN = 200
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Ids = Annotated[tuple[str, ...], Field(max_length=MAX_KEPT)]


def _forget(
    ask: Ask,
    text: Annotated[str, Field(pattern=r"^([Ll][0-9]{1,9}|[0-9a-f]{32})?$")] = "",  # noqa: ARG001 - for the template
) -> Beside:
    """Read what stays forgotten; `text` is what another page led here for, by its id: no words are in an address."""
    ask(forgotten, limit=_FORGOTTEN)
    return {}


def _preview(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    receipt = ask(forget_text, text, words, _ids_to_keep(text, listed, ticked), dry_run=True)
    # The form that erases sends the text once more.
    return Done("Nothing was changed yet.", replies={"receipt": receipt, "text": text, "words": words})


def _erase(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    return _erased(ask(forget_text, text, words, _ids_to_keep(text, listed, ticked), confirm=True))


def _finish(ask: Ask) -> Done:
    """Go on with what was interrupted."""
    return _erased(ask(forget_text, confirm=True))


def _lift(ask: Ask, text: Text) -> Done:
    receipt = ask(forget_text, text=text, lift=True)
    said = "It may be learnt again; nothing comes back." if receipt.lifted else "It was not forgotten."
    return Done(said, f"receipt {receipt.digest}")


def _ids_to_keep(text: str, listed: Ids, ticked: Ids) -> Ids:
    """Return what stays: what was listed and is not ticked."""
    if not text.strip():
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    return tuple(one for one in listed if one not in ticked)


def _erased(receipt: Receipt) -> Done:
    said = "It is forgotten: nothing of it is left." if receipt.clean else "It is forgotten, but for what is left."
    counts = f"{counted(receipt.crystals, 'crystal')}, {counted(receipt.pointers, 'pointer')}"
    figures = f"{counts}, {'clean' if receipt.clean else 'not clean'}"
    return Done(said, f"receipt {receipt.digest}: {figures}", replies={"receipt": receipt})


_FORGETTING = (
    Act(_preview, "preview", long=True, reads=True),
    Act(_erase, "erase", long=True),
    Act(_finish, "finish", long=True),
    Act(_lift, "lift"),
)
FORGET = Page("forget", "Forget", _forget, acts=_FORGETTING)

# ------------------------------------------------------------------------------------------------ settings


def _without_page() -> list[AnyOperation]:
    return [one for one in OPERATIONS.values() if one.remote and one.name not in PAGES]


SETTINGS = Page("settings", "Settings", lambda _: {"operations": _without_page()})

# ------------------------------------------------------------------------------------------------ all of them

# In the order of their worth.
_SHOWN = (REVIEW, NOW, MEMORY, DREAMS, SEARCH, SESSIONS, FORGET, SETTINGS)
FIRST = NOW.name
PAGES: dict[str, Page] = {page.name: page for page in (*_SHOWN, FRAME, LINE, ONE_DREAM, CRYSTAL, SESSION)}
NAVIGATION = tuple((page.name, page.title) for page in _SHOWN)
