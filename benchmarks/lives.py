"""Lives: what MEMORY.md without a model answers after five days, against the raw notes cut to the same length.

    python -m benchmarks.lives

A question is answered by a text that holds one of its answers, and not a stale value above it.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from daemon.config.settings import Config, DreamSection, LimitsSection, ModelSection
from daemon.dream.run import Mode, dream_now
from daemon.workspace.stores import Store, open_exclusive, utc_now
from state.document.document import parse
from state.dream import Reason
from state.scratch import Note
from state.stores.disk.workspace import contained, init_workspace

LIVES = Path(__file__).parents[1] / "tests" / "lives"
# Models of these windows are given MEMORY.md of 8,000, 4,000 and 2,000 characters.
WINDOWS = (200_000, 64_000, 16_000)


@dataclass(frozen=True, slots=True)
class Answered:
    """How many of the questions MEMORY.md answers, and the raw notes of the same length."""

    characters: int
    memory: int
    notes: int
    questions: int
    lost: tuple[str, ...]


def life(name: str) -> dict[str, Any]:
    """Read a life of tests/lives."""
    read: dict[str, Any] = json.loads((LIVES / f"{name}.json").read_text("utf-8"))
    return read


@contextmanager
def lived(
    days: Sequence[Sequence[Mapping[str, Any]]],
    context_window: int,
    folder: Path,
    model: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Store]:
    """Open a workspace in which these notes were noted, with a dream at the end of each day."""
    workspace = init_workspace(contained(folder))
    limits = LimitsSection(tokens_per_day=10**9, tokens_per_dream=10**9, usd_per_day=1e9)
    config = Config(dream=DreamSection(context_window=context_window), model=ModelSection(**model), limits=limits)
    with open_exclusive(workspace, config, "a benchmark") as store:
        for notes in days:
            for one in notes:
                store.notes.inbox.append(Note(one["text"], utc_now(), one["importance"]))
            dream_now(store, Reason.MANUAL, Mode.AUTO)
        yield store


def answers(text: str, question: Mapping[str, Any]) -> bool:
    """Return whether a text answers a question, and says nothing stale above the answer."""
    folded = text.casefold()
    places = [folded.find(one.casefold()) for one in question["answers"] if one.casefold() in folded]
    stale = [folded.find(one.casefold()) for one in question["stale"] if one.casefold() in folded]
    return bool(places) and min(places) <= min(stale, default=len(folded))


def kept(name: str, context_window: int, folder: Path) -> Answered:
    """Live five days without a model, then ask."""
    read = life(name)
    with lived(read["days"], context_window, folder) as store:
        text = store.workspace.document.read_text("utf-8")
    lines = "\n".join(block.text for _, block in parse(text).lines())
    notes = [f"- {one['text']}" for day in read["days"] for one in day]
    # Newest first, as in MEMORY.md: whoever reads from the top meets the current value first.
    raw = "\n".join(reversed(notes))[: len(text)]
    asked = read["questions"]
    lost = tuple(one["question"] for one in asked if answers(raw, one) and not answers(lines, one))
    by_memory, by_notes = (sum(answers(said, one) for one in asked) for said in (lines, raw))
    return Answered(len(text), by_memory, by_notes, len(asked), lost)


if __name__ == "__main__":
    print("life           characters  MEMORY.md  raw notes  of")
    for name in ("five_days_a", "five_days_b"):
        for window in WINDOWS:
            with tempfile.TemporaryDirectory() as folder:
                found = kept(name, window, Path(folder) / "agent")
            print(f"{name:14} {found.characters:>10,} {found.memory:>10} {found.notes:>10} {found.questions:>3}")
            for question in found.lost:
                print(f"    lost: {question}")
