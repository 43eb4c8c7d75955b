"""Recordings: what a model answered in a life, kept with the version of the prompt, and played again.

A file holds several runs, each of one life at one size. An answer is played where the request is the one that was
recorded, letter for letter (SHA-256 of its messages). Where it is not, the answer of the same place is played (dream
and turn), and counted: a figure that rests on such answers is about another conversation. A run of another version of
the prompt is not played at all.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphs import talk

NOTHING = '{"operations": [], "consumed": []}'


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the day of its dream, which turn of it, the digest of the request, and the text."""

    day: int
    turn: int
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """The answers of one model over one life. `prompt` names the prompt's version and digest."""

    life: str
    characters: int
    model: str
    prompt: str
    answers: tuple[Answer, ...]


def digest_of(messages: Sequence[dict[str, str]]) -> str:
    """Return the SHA-256 (hex) of the messages of a request."""
    said = [[one["role"], one["content"]] for one in messages]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def load(path: Path) -> list[Run]:
    """Return the runs of a file."""
    given = json.loads(path.read_text("utf-8"))
    return [Run(**{**one, "answers": tuple(Answer(**answer) for answer in one["answers"])}) for one in given]


def save(path: Path, run: Run) -> None:
    """Write a run into a file, in place of an earlier one over the same life at the same size."""
    kept = load(path) if path.exists() else []
    runs = [one for one in kept if (one.life, one.characters) != (run.life, run.characters)] + [run]
    text = json.dumps([asdict(one) for one in runs], ensure_ascii=False, indent=1)
    written = path.with_suffix(".new")
    written.write_text(text + "\n", "utf-8")
    written.replace(path)


def find(path: Path, life: str, characters: int) -> Run:
    """Return the run to play. Raise ValueError if there is none, or if the prompt has changed since."""
    run = next((one for one in load(path) if (one.life, one.characters) == (life, characters)), None)
    if run is None:
        raise ValueError(f"{path} has no answers for {life} at {characters:,} characters: record some with --record")
    if run.prompt != talk.prompt().label:
        raise ValueError(
            f"{path} answers prompt {run.prompt}, and the prompt is {talk.prompt().label} now: "
            f"a new record is needed (--model NAME --record {path})"
        )
    return run


@dataclass(slots=True)
class Player:
    """A script for `ScriptedModel` that plays a run. `day` is set before each dream."""

    run: Run
    day: int = 0
    played: int = 0
    differed: int = 0
    unanswered: int = 0
    _turns: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def __call__(self, request: dict[str, Any], _number: int) -> str:
        """Return the recorded answer of this request, else of this place, else none."""
        digest, turn = digest_of(request["messages"]), self._turns[self.day]
        self._turns[self.day] += 1
        self.played += 1
        same = next((one for one in self.run.answers if one.digest == digest), None)
        if same is not None:
            return same.text
        self.differed += 1
        here = next((one for one in self.run.answers if (one.day, one.turn) == (self.day, turn)), None)
        self.unanswered += here is None
        return here.text if here is not None else NOTHING

    def __str__(self) -> str:
        """Say how far what was played is what was recorded."""
        said = f"{self.differed} of {self.played} requests differed from the record"
        if not self.differed:
            return said
        return f"{said} and were answered by their place, {self.unanswered} not at all: make a new record"
