"""Lives: days of notes, transcripts, feelings and hand edits, lived by a workspace, then questions and their judge.

A life is a JSON file (`tests/lives`):

    {"name": "who the owner is, what the agent helps with, which days",
     "days": [{"date": "2026-03-02", "events": [
        {"at": "09:12", "note": "what the agent noted", "importance": 0.7},
        {"at": "09:40", "transcript": [{"role": "user", "text": "…"}, {"role": "assistant", "text": "…"}]},
        {"at": "11:05", "feel": "achievement", "because": "short cause"},
        {"at": "17:00", "delete": "words of lines that the owner deletes from MEMORY.md"},
        {"at": "17:01", "replace": ["words now in MEMORY.md", "the owner's words for that line"]}]}],
     "questions": [{"question": "…", "answers": ["any of these"], "stale": ["a former value"], "kind": "fact"}]}

A text answers a question if it holds one of the answers and no former value above it. A `deleted` question has no
answers: the text must not hold what is in `stale`.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from daemon.api.access import LocalAccess
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.signals import feel_event
from daemon.config.settings import Config
from daemon.dream.run import Mode, Outcome, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.session_start import session
from daemon.workspace.stores import Store, follow_clock
from state.document.sections import SectionName
from state.dream import Reason
from state.errors import DreamdError
from state.signals.hormones import Feeling
from state.stores.disk.workspace import Workspace

LIVES = Path(__file__).parents[1] / "tests" / "lives"
# A model of this window is given MEMORY.md of so many characters.
WINDOWS = {8_000: 200_000, 6_000: 128_000, 4_000: 64_000, 3_200: 16_000}
KINDS = ("fact", "changed", "deadline", "preference", "command", "person", "decision", "deleted")
_IDLE = timedelta(minutes=30)  # from the last event of a day to its dream
_MORNING = timedelta(hours=9)
_SAID = {"note", "transcript", "feel", "delete", "replace"}
_BESIDE = {"note": {"importance", "fact", "value"}, "feel": {"because"}}
# Nothing but the price may end a dream here: whoever answers may take hours.
_LIMITS = {"tokens_per_dream": 10**9, "tokens_per_day": 10**9, "wall_seconds_per_dream": 1e9}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked when the days are over."""

    question: str
    answers: tuple[str, ...]
    stale: tuple[str, ...] = ()
    kind: str = "fact"

    def is_answered(self, text: str) -> bool:
        """Return whether a text answers this, and says nothing stale above the answer."""
        stale = _first(text, self.stale)
        if self.kind == "deleted":
            return stale is None
        found = _first(text, self.answers)
        return found is not None and (stale is None or found <= stale)


@dataclass(frozen=True, slots=True)
class Event:
    """What happens at a moment: `what` is the key of the file that says it, `said` all of its keys."""

    at: datetime
    what: str
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Life:
    """A life as it was read: the events of each day, in order."""

    name: str
    title: str
    days: tuple[tuple[Event, ...], ...]
    questions: tuple[Question, ...]

    @property
    def notes(self) -> list[Mapping[str, Any]]:
        """Every note, the first one first."""
        return [event.said for day in self.days for event in day if event.what == "note"]

    def raw_notes(self, characters: int) -> str:
        """Return the notes of this length, newest first: whoever reads from the top meets the current value first."""
        return "\n".join(f"- {note['note']}" for note in reversed(self.notes))[:characters]


def read(path: Path) -> Life:
    """Read a life. Raise ValueError saying what is wrong with the file, and where."""
    given = json.loads(path.read_text("utf-8"))
    days, last = [], datetime.min.replace(tzinfo=UTC)
    for day in given["days"]:
        events = [_event(day["date"], said) for said in day["events"]]
        for event in events:
            if event.at < last:
                raise ValueError(f"{path.name}: {event.at:%Y-%m-%d %H:%M} comes after {last:%Y-%m-%d %H:%M}")
            last = event.at
        days.append(tuple(events))
    questions = tuple(_question(path.name, one) for one in given.get("questions", ()))
    return Life(path.stem, given["name"], tuple(days), questions)


def _event(date: str, said: dict[str, Any]) -> Event:
    at = datetime.fromisoformat(f"{date}T{said['at']}").replace(tzinfo=UTC)
    kinds = _SAID & said.keys()
    what = next(iter(kinds), "")
    if len(kinds) != 1 or said.keys() - {"at", what} - _BESIDE.get(what, set()):
        raise ValueError(f"{date} {said['at']}: an event is one of {', '.join(sorted(_SAID))}, not {sorted(said)}")
    return Event(at, what, said)


def _question(name: str, given: dict[str, Any]) -> Question:
    one = Question(
        given["question"],
        tuple(given.get("answers", ())),
        tuple(given.get("stale", ())),
        given.get("kind") or ("changed" if given.get("stale") else "fact"),
    )
    if one.kind not in KINDS or (one.kind == "deleted") == bool(one.answers) or not (one.answers or one.stale):
        raise ValueError(f"{name}: {one.question!r}: kind {one.kind!r} with answers {list(one.answers)}")
    return one


def _first(text: str, values: Sequence[str]) -> int | None:
    folded = text.casefold()
    return min((folded.find(one.casefold()) for one in values if one.casefold() in folded), default=None)


# Living.


@dataclass(frozen=True, slots=True)
class Night:
    """How the dream of one day ended. `missed` counts the hand edits of the day that found no line."""

    store: Store
    at: datetime
    day: int
    dream: str
    outcome: Outcome | None
    error: str = ""
    missed: int = 0


@contextmanager
def lived(
    life: Life,
    characters: int,
    folder: Path,
    model: Mapping[str, Any] = MappingProxyType({}),
    at_night: Callable[[Night], None] = lambda _: None,
    before_dream: Callable[[int], None] = lambda _: None,
) -> Iterator[Store]:
    """Open a workspace that has lived this life, with a dream at the end of each day.

    The clock goes with the life: it shows the morning after the last day at the end, and the machine's time again
    when the context is left. `model` is the section of the configuration.
    """
    config = Config.model_validate(
        {
            "timezone": "UTC",  # recorded answers are found by what the model was told
            "model": dict(model),
            "dream": {"context_window": WINDOWS[characters]},
            "limits": _LIMITS,
            "daemon": {"tokens_per_day": 10**9},
            "retention": {"answers_days": 36_500},
        }
    )
    workspace = init_workspace(folder)
    try:
        with LocalAccess(workspace, config, "a benchmark") as access:
            for number, day in enumerate(life.days, 1):
                missed = 0
                for event in day:
                    _set_clock(event.at)
                    missed += not _happen(access, event)
                at = day[-1].at + _IDLE
                _set_clock(at)
                before_dream(number)
                with access.write() as store:
                    at_night(_dreamt(store, number, at, missed))
                    _delete_aside(store)
            _set_clock(morning_after(life))
            with access.write() as store:
                yield store
    finally:
        _set_clock(datetime.now(UTC))


def given_at_start(store: Store, life: Life) -> str:
    """Return what an agent is given at session start, in the morning after the last day."""
    config = store.config
    window, redaction = config.dream.context_window, config.redaction
    return session(store.workspace, window, None, redaction, morning_after(life)).ready.text


def morning_after(life: Life) -> datetime:
    """Return nine o'clock of the day after the last one."""
    last = life.days[-1][-1].at
    return last.replace(hour=0, minute=0) + timedelta(days=1) + _MORNING


def _set_clock(at: datetime) -> None:
    follow_clock(at, time.monotonic())


def _delete_aside(store: Store) -> None:
    """Delete what a dream deletes an hour later: how old a file is the kernel says, and it knows no other clock."""
    for path in [*store.notes.inbox.displaced().values()][:-1]:
        path.unlink()


def _dreamt(store: Store, number: int, at: datetime, missed: int) -> Night:
    outcome, error = None, ""
    try:
        outcome = dream_now(store, Reason.MANUAL, Mode.AUTO)
    except DreamdError as failed:
        error = str(failed)
    return Night(store, at, number, store.ledger.runs(1)[0].id, outcome, error, missed)


def _happen(access: LocalAccess, event: Event) -> bool:
    """Let one thing happen; return False for a hand edit that found no line."""
    said = event.said
    match event.what:
        case "note":
            weight = {"importance": said["importance"]} if "importance" in said else {}
            access.run(working_memory_note, working_memory_note.bind(note=said["note"], **weight))
        case "feel":
            access.run(feel_event, feel_event.bind(event=Feeling(said["feel"]), because=said.get("because", "")))
        case "transcript":
            _say(access.workspace, event)
        case "delete":
            return _edit(access.workspace, said["delete"], None)
        case "replace":
            return _edit(access.workspace, *said["replace"])
    return True


def _say(workspace: Workspace, event: Event) -> None:
    """Write a conversation as Claude Code does, a session for each."""
    named = f"{event.at:%Y%m%d-%H%M}"
    path = workspace.root / "transcripts" / f"{named}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for count, turn in enumerate(event.said["transcript"]):
            at = event.at + timedelta(seconds=20 * count)
            message = {"role": turn["role"], "content": turn["text"]}
            record = {"type": turn["role"], "sessionId": named, "timestamp": at.isoformat(), "message": message}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _edit(workspace: Workspace, words: str, instead: str | None) -> bool:
    """Save MEMORY.md as its owner would in an editor; an owner who finds no line to correct writes one."""
    text = workspace.document.read_text("utf-8") if workspace.document.exists() else ""
    rows = text.split("\n")
    found = [row for row in rows if row.startswith("- ") and words.casefold() in row.casefold()]
    if instead is None:
        rows = [row for row in rows if row not in found]
    elif found:
        rows[rows.index(found[0])] = f"- {instead}"
    else:
        rows.insert(rows.index(f"## {SectionName.BOND.value}") + 1, f"\n- {instead}")
    edited = workspace.document.with_suffix(".saved")
    edited.write_text("\n".join(rows), "utf-8")
    edited.replace(workspace.document)
    return bool(found)
