"""Do crystal pointers lead back? Lines are evicted, and their pointers' keywords alone are searched for.

    python -m benchmarks.pointers [--lines 300] [--seed 3]

Asked right after the eviction, again when the store holds ten times as many crystals, and once more after the mending
that every dream does. Texts are turns of LoCoMo when it is there (DREAMD_LOCOMO, or shared/data/locomo-dev.json
beside the repository), else synthetic ones; real embeddings either way.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.workload import BEGINNING, Workload
from daemon.config.settings import Config
from daemon.dream.memory import WorkspaceMemory
from daemon.workspace.searching import embed_waiting, searched_in
from daemon.workspace.stores import Store, open_exclusive, utc_now
from state.crystals.crystal import Crystal, Origin
from state.document.pointer import FIRST, candidates, choose
from state.stores.crystals.search import search
from state.stores.disk.workspace import contained, init_workspace
from state.text.words import content_terms, terms
from state.trust import Trust

GROWTH = 10
LEAST_WORDS = 4  # content words of a turn that is worth a line
_HERE = Path(__file__).parents[2] / "shared" / "data" / "locomo-dev.json"
_SYNTHETIC = 3_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    name, sessions = texts(given.seed)
    random.Random(given.seed).shuffle(sessions)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_exclusive(init_workspace(contained(Path(folder))), Config(), "benchmark") as store,
    ):
        early: list[Crystal] = []
        while sum(map(worth_a_line, early)) < given.lines and sessions:
            early += sessions.pop()
        learn(store, early)
        lines = random.Random(given.seed).sample([one for one in early if worth_a_line(one)], given.lines)
        before = store.crystals.count()
        print(f"{name}: {len(lines)} lines evicted from a store of {before:,} crystals")
        print(f"{'':30}{'crystals':>9}{'first 5':>9}{'first':>8}{'words':>7}{'ms each':>9}")
        began = time.perf_counter()
        pointers = pointed(store, lines, {})
        each = (time.perf_counter() - began) / len(lines)
        report(store, "right after the eviction", lines, pointers, each)
        learn(store, [crystal for session in sessions for crystal in session])
        missing = GROWTH * before - store.crystals.count()
        learn(store, [crystal for crystal, _ in Workload(given.seed).crystals(0, max(0, missing))])
        report(store, f"{store.crystals.count() / before:.0f} times as many crystals", lines, pointers, 0.0)
        began = time.perf_counter()
        pointers = pointed(store, lines, pointers)
        each = (time.perf_counter() - began) / len(lines)
        report(store, "mended, as every dream does", lines, pointers, each)


def worth_a_line(crystal: Crystal) -> bool:
    """Tell whether the text says enough to have stood in MEMORY.md."""
    return len(content_terms(crystal.text)) >= LEAST_WORDS


def learn(store: Store, crystals: Sequence[Crystal]) -> None:
    """Remember these, with vectors, in both indexes."""
    store.crystals.learn(list(crystals))
    embed_waiting(store)


def pointed(store: Store, lines: Sequence[Crystal], known: Mapping[str, str]) -> dict[str, str]:
    """Return keywords for each line by its id, as an eviction does; known ones that still lead to it stay."""
    found = {}
    with WorkspaceMemory(store).trial([]) as trial:
        for line in lines:

            def leads(keywords: str, line: Crystal = line) -> bool:
                return line.id in trial.first(keywords, FIRST)

            standing = known.get(line.id)
            ranked = candidates(line.text, trial.frequency(terms(line.text)))
            keywords = standing if standing and leads(standing) else choose(ranked, leads, terms(line.text))
            if keywords is not None:
                found[line.id] = keywords
    return found


def report(store: Store, what: str, lines: Sequence[Crystal], pointers: Mapping[str, str], each: float) -> None:
    """Search for the keywords alone, and print how often the line is there; one without keywords is not."""
    places = []
    for line in lines:
        hits = (
            search(searched_in(store), pointers[line.id], utc_now(), limit=FIRST).hits if line.id in pointers else ()
        )
        places.append(next((at for at, hit in enumerate(hits) if hit.crystal.id == line.id), None))
    there = sum(place is not None for place in places) / len(lines)
    first = sum(place == 0 for place in places) / len(lines)
    words = sum(len(keywords.split()) for keywords in pointers.values()) / max(1, len(pointers))
    row = f"{what:30}{store.crystals.count():9,}{there:9.1%}{first:8.1%}{words:7.1f}"
    print(row + (f"{1_000 * each:9.0f}" if each else ""))


def texts(seed: int) -> tuple[str, list[list[Crystal]]]:
    """Return sessions of turns, and where they come from."""
    path = Path(os.environ.get("DREAMD_LOCOMO", _HERE))
    if path.is_file():
        return "LoCoMo", list(_locomo(json.loads(path.read_text())))
    crystals = [crystal for crystal, _ in Workload(seed).crystals(1_000_000, _SYNTHETIC)]
    return "synthetic turns", [crystals[at : at + 20] for at in range(0, len(crystals), 20)]


def _locomo(conversations: list[dict[str, Any]]) -> Iterator[list[Crystal]]:
    for number, sample in enumerate(conversations):
        conversation = sample["conversation"]
        for key in [key for key in conversation if key.startswith("session_") and not key.endswith("date_time")]:
            spoken = conversation[f"{key}_date_time"]
            at = datetime.strptime(spoken, "%I:%M %p on %d %B, %Y").replace(tzinfo=BEGINNING.tzinfo)
            yield [
                Crystal(
                    text=turn["text"],
                    origin=Origin.SESSION,
                    created_at=at + timedelta(seconds=30 * position),
                    trust=Trust.OWNER,
                    context=f"{turn['speaker']}, {at:%d %B %Y}",
                    speaker=turn["speaker"],
                    session=f"{number}/{key}",
                    position=position,
                )
                for position, turn in enumerate(conversation[key])
                if turn["text"].strip()
            ]


if __name__ == "__main__":
    main()
