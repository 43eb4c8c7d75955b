"""What a dream costs beside its model: the same 30 new notes in stores of growing size, node by node.

    python -m benchmarks.dream_overhead [--sizes 1000 10000 100000] [--runs 5] [--stores FOLDER]

MEMORY.md stands at its budget, so every dream evicts lines, verifies their pointers and those in the file. No model
is configured: the synthesis is the extractive one. All runs are in one process; what it imports is timed apart. A
folder given with --stores keeps the stores for the next time (100,000 crystals take some minutes to index).

Last, the processor time of dreams over 600 notes that look alike (few words lead to one of them), as a multiple
of that over 600 distinct notes.
"""

import argparse
import cProfile
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.workload import Workload, fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from daemon.dream.progress import Step
    from state.stores.disk.workspace import Workspace
    from state.stores.vectors.calibration import Calibration
    from state.stores.vectors.embedder import Embedder

NOTES = 30
SEED = 7
WARM_UP = 3  # dreams that fill MEMORY.md
ALIKE = 600
_IMPORTED = (
    "chromadb",
    "onnxruntime",
    "tokenizers",
    "daemon.dream.run",
)
_PHASES = ("absorb", "embed", "gather", "synthesize", "guard", "evict", "commit", "rest")


@dataclass(slots=True)
class TimedEmbedder:
    """An embedder that adds up the seconds and the calls."""

    inner: "Embedder"
    seconds: float = 0.0
    calls: int = 0

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def calibration(self) -> "Calibration":
        return self.inner.calibration

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":
        began = time.perf_counter()
        try:
            return self.inner.embed(texts, questions=questions)
        finally:
            self.seconds += time.perf_counter() - began
            self.calls += 1


@dataclass(slots=True)
class Run:
    """One dream: seconds by phase, and what of them was embedding."""

    opening: float
    phases: dict[str, float]
    processor: float
    embedding: float
    embeddings: int
    evicted: int
    pointers: int

    @property
    def total(self) -> float:
        """From the notes in the log to the new MEMORY.md, with the stores open."""
        return sum(self.phases.values())


@dataclass(slots=True)
class Clock:
    """Wall time between marks, and the processor time at the beginning."""

    phases: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)
    used: float = field(default_factory=time.process_time)

    def mark(self, phase: str) -> None:
        now = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self.last
        self.last = now


def imported() -> float:
    """Return the seconds that importing what a dream needs takes."""
    began = time.perf_counter()
    for module in _IMPORTED:
        import_module(module)
    return time.perf_counter() - began


def dreamt(workspace: "Workspace", workload: Workload, batch: int, profile: cProfile.Profile | None = None) -> Run:
    """Dream over the notes of this batch."""
    from daemon.config.settings import Config
    from daemon.dream.run import Mode, dream_now
    from daemon.ingest.notes import absorb_notes
    from daemon.workspace.stores import open_exclusive, utc_now
    from daemon.workspace.vector_index import Embedding
    from state.document.operations import Why
    from state.document.sections import SectionName
    from state.dream import Reason

    began = time.perf_counter()
    embedder = timed()
    embedding = Embedding.given(embedder)
    with open_exclusive(workspace, Config(), "benchmark", embedding=embedding) as store:
        opening = time.perf_counter() - began
        for note in workload.notes(batch, NOTES, utc_now()):
            store.notes.inbox.append(note)
        with profile or nullcontext():
            times = Clock()
            # What dream_now does first, one by one; it then finds it done.
            absorb_notes(store, utc_now())
            times.mark("absorb")
            store.crystals.vectors.embed_pending(embedder)
            times.mark("embed")

            def told(step: "Step") -> None:
                times.mark(step.node)

            outcome = dream_now(store, Reason.MANUAL, Mode.AUTO, told)
            times.mark("rest")
            processor = time.process_time() - times.used
        left = [line for line, why in outcome.dream.left if why is Why.EVICTED]
        gone = sum(line.section is not SectionName.POINTERS for line in left)
        pointers = sum(line.section is SectionName.POINTERS for line in outcome.dream.came)
    return Run(opening, times.phases, processor, embedder.seconds, embedder.calls, gone, pointers)


def timed() -> TimedEmbedder:
    """Return the embedder, which measures its time."""
    from daemon.workspace.vector_index import Embedding
    from state.stores.vectors.embedder import Unavailable

    inner = Embedding().get()
    if isinstance(inner, Unavailable):
        raise SystemExit(inner.reason)
    return TimedEmbedder(inner)


def prepared(folder: Path, workload: Workload, size: int) -> "Workspace":
    """Make a workspace with so many crystals, and a MEMORY.md at its budget."""
    from daemon.config.settings import Config
    from daemon.workspace.stores import open_exclusive
    from state.stores.disk.workspace import contained, init_workspace

    workspace = init_workspace(contained(folder / f"{size}"))
    with open_exclusive(workspace, Config(), "benchmark") as store:
        fill(store, workload, size)
        first = store.lineage.last_version()
    for batch in range(first, max(first, WARM_UP)):
        dreamt(workspace, workload, batch)
    return workspace


def measured(workspaces: "dict[int, Workspace]", workload: Workload, first: int, runs: int) -> dict[int, list[Run]]:
    """Return the runs by size. The sizes take turns, so that a busy machine slows down all of them."""
    results: dict[int, list[Run]] = {size: [] for size in workspaces}
    for run in range(runs):
        for size, workspace in workspaces.items():
            results[size].append(dreamt(workspace, workload, first + run))
    return results


def table(results: dict[int, list[Run]]) -> None:
    sizes = list(results)
    base = sizes[0]

    def row(name: str, values: list[float]) -> None:
        print(f"{name:28}" + "".join(f"{value:10.3f}" for value in values) + f"{values[-1] / (values[0] or 1):9.2f}")

    print(f"{'seconds, median':28}" + "".join(f"{size:10,}" for size in sizes) + f"   last/{base:,}")
    for phase in _PHASES:
        row(phase, [median(run.phases.get(phase, 0.0) for run in results[size]) for size in sizes])
    row("the dream", [median(run.total for run in results[size]) for size in sizes])
    row("  best run", [min(run.total for run in results[size]) for size in sizes])
    row("  without embedding", [median(run.total - run.embedding for run in results[size]) for size in sizes])
    row("  processor time", [median(run.processor for run in results[size]) for size in sizes])
    row("  of it embedding", [median(run.embedding for run in results[size]) for size in sizes])
    row("opening the stores", [median(run.opening for run in results[size]) for size in sizes])
    for name in ("embeddings", "evicted", "pointers"):
        counts = [int(median(getattr(run, name) for run in results[size])) for size in sizes]
        print(f"{name:28}" + "".join(f"{count:10}" for count in counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--stores", type=Path, help="keep the stores here; used again when they are there")
    parser.add_argument("--profile", type=Path, help="write a profile of one more dream at each size to FILE-SIZE")
    given = parser.parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    print(f"imports {imported():.2f} s")
    workload = Workload(SEED)
    with tempfile.TemporaryDirectory() if given.stores is None else nullcontext(given.stores) as folder:
        workspaces = {size: prepared(Path(folder), workload, size) for size in given.sizes}
        first = max(map(versions, workspaces.values()))
        table(measured(workspaces, workload, first, given.runs))
        print(f"{f'{ALIKE} notes alike / distinct':28}{alike_over_distinct(Path(folder), workload):10.2f}")
        for size in given.sizes if given.profile else ():
            profile = cProfile.Profile()
            dreamt(workspaces[size], workload, first + given.runs, profile)
            profile.dump_stats(f"{given.profile}-{size}")


def of_many_notes(folder: Path, texts: Sequence[str]) -> float:
    """Return the processor time of dreams over all these notes, from a new workspace until none is pending."""
    from daemon.config.settings import Config
    from daemon.dream.run import Mode, dream_now
    from daemon.workspace.stores import open_exclusive, utc_now
    from state.dream import Reason
    from state.scratch import Note
    from state.stores.disk.workspace import contained, init_workspace

    with open_exclusive(init_workspace(contained(folder)), Config(), "benchmark") as store:
        for text in texts:
            store.notes.inbox.append(Note(text, utc_now()))
        began = time.process_time()
        while dream_now(store, Reason.MANUAL, Mode.AUTO).pending:
            pass
        return time.process_time() - began


def alike_over_distinct(folder: Path, workload: Workload) -> float:
    """Return the processor time of dreams over notes that look alike, as a multiple of that over distinct ones."""
    what = "of the nightly pipeline ran green and its artefacts were uploaded to the bucket"
    alike = [f"Build {number} {what} by runner {number % 7}." for number in range(ALIKE)]
    distinct = [workload.text("note", number)[0] for number in range(ALIKE)]
    return of_many_notes(folder / "alike", alike) / of_many_notes(folder / "distinct", distinct)


def versions(workspace: "Workspace") -> int:
    """Return how many dreams it had: the next batch of notes is new to it."""
    from daemon.config.settings import Config
    from daemon.workspace.stores import open_exclusive

    with open_exclusive(workspace, Config(), "benchmark") as store:
        return store.lineage.last_version()


if __name__ == "__main__":
    main()
