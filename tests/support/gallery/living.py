"""A workspace that lives with bad models: dream after dream of every kind, and what became of what it knew."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.gallery.kinds import Kind, name_of
from tests.support.model_characters import good
from tests.support.scripted_model import Reply
from tests.support.serving import noted

_WHO = "Amina Bruno Chloe Dmitri Elif Fatou Goran Hanna Ilse Jonas Keiko Lars".split()
_SEEN = ("ringed", "photographed", "heard", "drew", "released", "filmed", "lost sight of", "fed")
_BIRDS = "crane heron raven puffin kestrel lapwing siskin".split()
_PLACES = ("by the weir", "on the jetty", "near the silo", "in the belfry", "behind the hedge", "under the gable")
# What the owner wrote into the file and nobody ever noted: no crystal has it until it leaves.
BY_HAND = (
    "Mother's recipe for quince jelly needs 850 grams of sugar",
    "The summer house has the serial 7719",
    "Cousin Beatrix is allergic to hazelnuts and to penicillin",
    "The fuse of the cellar light is number 14, second row",
    "Passport renewal is due on 2027-02-17",
    "The piano tuner, Mr Ostrowski, only comes on Thursdays",
)
PINNED = (
    "Never book flights through Frankfurt",
    "The dog Biscuit is fed at 07:15 and at 18:45",
    "Answers are signed with the letter Q",
)


@dataclass(slots=True)
class Turn:
    """Who answers now: a script for one server that lives through many dreams.

    The next kind comes with each dream, or with each call. A script is told the number of its own calls in a dream.
    """

    kinds: Iterator[Kind]
    by_call: bool = False
    kind: Kind = good
    calls: int = 0
    asked: list[Kind] = field(default_factory=list)
    _next: Kind | None = None

    def begin(self) -> bool:
        """The next dream begins, if there are kinds left."""
        if self.by_call:
            self._next = self._next or next(self.kinds, None)
            return self._next is not None
        self.kind, self.calls = next(self.kinds, good), 0
        self.asked.append(self.kind)
        return self.kind is not good or len(self.asked) == 1

    def __call__(self, request: dict[str, Any], _number: int) -> Reply | str | dict[str, Any]:
        if self.by_call:
            self.kind, self._next = self._next or next(self.kinds, good), None
            self.asked.append(self.kind)
        self.calls += 1
        return self.kind(request, 1 if self.by_call else self.calls)


@dataclass(frozen=True, slots=True)
class Lived:
    """One dream: what it ended in, what it cost, and what the guards refused, by guard."""

    kind: str
    status: int
    outcome: str
    calls: int
    tokens: int
    refused: Counter[str] = field(default_factory=Counter)
    applied: int = 0


def by_hand(workspace: Workspace) -> tuple[str, ...]:
    """The owner writes lines of theirs into MEMORY.md, some of them pinned; returns them."""
    rows = "".join([*(f"- {line}\n" for line in BY_HAND), *(f"- {line} 📌\n" for line in PINNED)])
    text = lived.document(workspace)
    assert "## The Niche" in text
    workspace.document.write_text(text.replace("## The Niche", f"{rows}\n## The Niche", 1), encoding="utf-8")
    return (*BY_HAND, *PINNED)


def order(kinds: Sequence[Kind], rounds: int, rng: random.Random) -> Iterator[Kind]:
    """A good one first, then each kind so many times, in an order of its own each time."""
    yield good
    for _ in range(rounds):
        yield from rng.sample(kinds, len(kinds))


def live(
    workspace: Workspace, turn: Turn, dream: Callable[[], int], facts: list[str], rng: random.Random
) -> Iterator[Lived]:
    """Dreams until no kind is left; before each one new fact is noted, which joins `facts`.

    MEMORY.md is valid after each.
    """
    for number in count():
        if not turn.begin():
            return
        seen = f"{rng.choice(_WHO)} {rng.choice(_SEEN)} a {rng.choice(_BIRDS)} {rng.choice(_PLACES)}"
        facts.append(f"{seen}, ring {number * 7919}")
        noted(workspace, facts[-1:])
        before = lived.calls(workspace)
        status = dream()
        lived.assert_valid(workspace)
        yield _told(workspace, name_of(turn.kind), status, before)


def _told(workspace: Workspace, kind: str, status: int, before: int) -> Lived:
    run = lived.rows(workspace, "SELECT * FROM dreams ORDER BY started_at DESC LIMIT 1")[0]
    refusals = lived.rows(workspace, "SELECT * FROM rejections WHERE dream = ?", run["id"])
    calls = lived.rows(workspace, "SELECT * FROM calls ORDER BY rowid LIMIT -1 OFFSET ?", before)
    applied = 0
    if run["outcome"] == "committed":
        newest = next(row for row in reversed(lived.versions(workspace)) if row["record"])
        applied = len(json.loads(newest["record"])["operations"])
    return Lived(
        kind,
        status,
        run["outcome"],
        len(calls),
        sum(call["tokens"] or 0 for call in calls),
        Counter(row["guard"] for row in refusals),
        applied,
    )
