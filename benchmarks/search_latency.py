"""How long a search takes as a workspace grows, without the embedding of the query.

    python -m benchmarks.search_latency [--sizes 1000 10000 100000] [--stores FOLDER]

Synthetic texts and vectors (`benchmarks.workload`) in SQLite with FTS5, and in ChromaDB; each
query asks in words of one of the texts. A folder given with --stores keeps the stores for the next time (100,000
crystals take some minutes to index).
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import quantiles

from benchmarks.workload import BEGINNING, Prepared, Workload
from daemon.workspace.vector_index import Index
from state.search.query import content_words
from state.search.ranking import CANDIDATES, Filters, Findings
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Searched, search
from state.stores.database.opening import open_database
from state.stores.disk.workspace import contained, init_workspace
from state.stores.vectors.chroma import VectorIndex

QUERIES = 200
SEED = 7
_BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Filled:
    """A store of one size, and what is asked of it."""

    crystals: Crystals
    index: VectorIndex
    embedder: Prepared
    queries: list[str]


@contextmanager
def filled(folder: Path, size: int) -> Iterator[Filled]:
    """Bring the store in the folder to this size."""
    folder.mkdir(parents=True, exist_ok=True)
    workspace = init_workspace(contained(folder))
    connection = open_database(workspace.database)
    crystals, embedder, workload = Crystals(connection), Prepared(), Workload(SEED)
    for start in range(crystals.count(), size, _BATCH):
        batch = list(workload.crystals(start, min(_BATCH, size - start)))
        vectors = workload.vectors(start, [theme for _, theme in batch])
        embedder.vectors = {one.indexed_text: vector for (one, _), vector in zip(batch, vectors, strict=True)}
        crystals.learn(one for one, _ in batch)
        crystals.vectors.embed_pending(embedder, _BATCH)
    indexing = Index(workspace, lambda: None, background=True)
    indexing.tell(crystals)
    index = indexing.wait()
    assert index is not None
    try:
        yield Filled(crystals, index, embedder, _queries(workload, embedder, size))
    finally:
        indexing.close()
        connection.close()


def _queries(workload: Workload, embedder: Prepared, size: int) -> list[str]:
    """Return questions in the words of stored texts, with their vectors prepared."""
    rng = random.Random(SEED)
    queries = []
    for number in rng.sample(range(size), QUERIES):
        text, theme = workload.text("turn", number)
        words = content_words(text)
        query = f"What happened with the {' '.join(rng.sample(words, min(len(words), rng.randint(3, 7))))}?"
        embedder.vectors[query] = workload.vectors(number, [theme])[0]
        queries.append(query)
    return queries


def timed(queries: Sequence[str], ask: Callable[[str], object]) -> str:
    """Return the median and the 95th percentile in milliseconds."""
    seconds = []
    for query in queries:
        began = time.perf_counter()
        ask(query)
        seconds.append(time.perf_counter() - began)
    cuts = quantiles(seconds, n=20)
    return f"{cuts[9] * 1000:.0f} / {cuts[18] * 1000:.0f}"


def measure(store: Filled, size: int) -> list[str]:
    """Return one cell for each column of the table."""
    crystals, queries = store.crystals, store.queries
    now = BEGINNING + timedelta(minutes=7 * size)
    searched, nearest = Searched(crystals, store.embedder), crystals.vectors.nearest
    shares = (0.05, 0.5, 0.9)
    latest = [Filters(since=now - timedelta(minutes=7 * size * share)) for share in shares]

    def words(query: str) -> dict[int, float]:
        asked = full_text.within_budget(full_text.frequency(crystals.connection, content_words(query)))
        return full_text.nearest(crystals.connection, asked, CANDIDATES)

    def by_chromadb(query: str) -> Findings:
        return search(Searched(crystals, store.embedder, store.index), query, now)

    timed(queries[:20], lambda query: search(searched, query, now))
    cells = [
        timed(queries, lambda query: search(searched, query, now)),
        timed(queries, lambda query: search(searched, query, now, filters=Filters(session="session-3"))),
        *(timed(queries, partial(_filtered, searched, now, filters)) for filters in latest),
        timed(queries, lambda query: search(Searched(crystals), query, now)),
        timed(queries, words),
        timed(queries, lambda query: nearest.to(store.embedder.vectors[query], CANDIDATES)),
        timed(queries, lambda query: store.index.nearest(store.embedder.vectors[query], CANDIDATES)),
    ]
    return [*cells, timed(queries, by_chromadb)]


def _filtered(searched: Searched, now: datetime, filters: Filters, query: str) -> Findings:
    return search(searched, query, now, filters=filters)


COLUMNS = (
    "memory_search",
    "one session",
    "the last 5 %",
    "50 %",
    "90 %",
    "no model",
    "FTS5 alone",
    "the scan alone",
    "ChromaDB alone",
    "memory_search by ChromaDB",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--stores", type=Path)
    arguments = parser.parse_args()
    print("milliseconds, p50 / p95, without the embedding of the query")
    print(f"| crystals | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    with tempfile.TemporaryDirectory() as temporary:
        for size in arguments.sizes:
            with filled((arguments.stores or Path(temporary)) / str(size), size) as store:
                print(f"| {size:,} | {' | '.join(measure(store, size))} |", flush=True)


if __name__ == "__main__":
    main()
