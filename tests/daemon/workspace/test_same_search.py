"""A one-shot command, which compares all vectors, and the daemon, which asks ChromaDB, find the same for a query."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.operations.search import search
from daemon.config.settings import Config
from daemon.workspace.searching import chroma_of, embed_waiting
from daemon.workspace.stores import Store, open_exclusive, open_owned, open_readonly
from daemon.workspace.vector_index import Embedding, Index
from state.crystals.crystal import Crystal, Kind, Origin
from state.search.ranking import Filters
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.trust import Trust
from tests.support.in_memory import BagOfWords
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SUBJECTS = ("canary", "cluster", "ferry", "harbour", "invoice", "compost", "quartz", "replica")
DEEDS = ("drained", "painted", "moved", "sold", "measured", "lost")
PLACES = ("noon", "the north gate", "the old mill", "Lyon", "the attic")
SPEAKERS = ("Mira", "assistant", "")
EMBEDDING = Embedding.given(BagOfWords(width=32))


def said(number: int) -> Crystal:
    subject, deed, place = (
        words[number // by % len(words)] for words, by in ((SUBJECTS, 1), (DEEDS, 8), (PLACES, 48))
    )
    speaker = SPEAKERS[number % 3]
    return Crystal(
        f"The {subject} was {deed} at {place}, says page {number}",
        Origin.SESSION if speaker else Origin.SCRATCH,
        NOW - timedelta(hours=number),
        kind=(Kind.FACT, Kind.GOAL)[number % 7 == 0],
        trust=(Trust.OWNER, Trust.AGENT)[number % 2],
        speaker=speaker,
        session=f"session {number // 40}" if speaker else "",
        position=number % 40,
    )


@contextmanager
def daemons(workspace: Workspace) -> Iterator[Store]:
    """The stores of the daemon, which holds ChromaDB open."""
    with (
        closing(Index(workspace, lambda: None, EMBEDDING, background=True)) as index,
        closing(open_owned(index, Config())) as store,
    ):
        index.tell(store.crystals)
        assert (chroma := index.wait()) is not None
        assert chroma.count() == store.crystals.count()
        yield store


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """The stores of a command, and of the daemon, which asks even if few crystals pass a filter."""
    workspace = init_workspace(contained(tmp_path_factory.mktemp("kept") / "agent"))
    with open_exclusive(workspace, Config(), "test", embedding=EMBEDDING) as store:
        store.crystals.learn(map(said, range(720)))
        embed_waiting(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("state.stores.crystals.nearest._FEW", 0)
        with daemons(workspace) as daemon, open_readonly(workspace, Config(), EMBEDDING) as command:
            yield command, daemon


moments = st.none() | st.integers(0, 720).map(lambda hours: NOW - timedelta(hours=hours))
filters = st.builds(
    Filters,
    origin=st.none() | st.sampled_from([Origin.SESSION, Origin.SCRATCH]),
    kind=st.none() | st.sampled_from([Kind.FACT, Kind.GOAL]),
    session=st.none() | st.integers(0, 18).map(lambda number: f"session {number}"),
    speaker=st.none() | st.sampled_from(["Mira", "assistant"]),
    since=moments,
    until=moments,
    trust=st.none() | st.sampled_from(Trust),
)
queries = st.lists(st.sampled_from((*SUBJECTS, *DEEDS, *PLACES, "Mira", "77", "nobody")), min_size=1, max_size=4)


@examples(150)
@given(words=queries, filters=filters, limit=st.integers(1, 20))
def test_a_command_and_the_daemon_find_the_same(
    both: tuple[Store, Store], words: list[str], filters: Filters, limit: int
) -> None:
    mine, theirs = (search(store, " ".join(words), limit, filters) for store in both)
    chroma = chroma_of(both[1])
    assert chroma is not None
    assert not chroma.failed
    assert [hit.crystal.id for hit in mine.hits] == [hit.crystal.id for hit in theirs.hits]
    assert [hit.score for hit in mine.hits] == sorted((hit.score for hit in mine.hits), reverse=True)
    assert [hit.score for hit in mine.hits] == pytest.approx([hit.score for hit in theirs.hits], abs=1e-3)
