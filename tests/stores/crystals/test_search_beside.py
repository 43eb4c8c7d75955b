"""Search of what is not in the stores yet, beside what is."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.crystals.crystal import Origin
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Beside, Searcher
from state.stores.database.connection import memory_database
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.index_folder import new_build
from tests.stores.crystals.test_search import NOW, _note, _texts, sentences
from tests.support.in_memory import BagOfWords


@pytest.mark.full
@pytest.mark.parametrize("dense", [True, False])
@given(stored=st.lists(sentences, min_size=20, max_size=40), new=st.lists(sentences, min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_comes_first_beside_comes_among_the_first_once_it_is_written(
    stored: list[str], new: list[str], *, dense: bool
) -> None:
    embedder = BagOfWords() if dense else None
    with closing(memory_database()) as connection:
        crystals = Crystals(connection)
        crystals.upsert(map(_note, stored))
        leaving = [_note(text, origin=Origin.EVICTED) for text in new]
        if embedder:
            crystals.vectors.embed_pending(embedder, 1_000)
        with closing(Beside(leaving, embedder)) as beside:
            tried = [Searcher(crystals, embedder, None, beside).rank_of(one.text, one.id, NOW, 3) for one in leaving]
        crystals.upsert(leaving)
        if embedder:
            crystals.vectors.embed_pending(embedder, 1_000)
        for one, rank in zip(leaving, tried, strict=True):
            if rank is not None:
                hits = Searcher(crystals, embedder).search(one.text, NOW, limit=99, by_value=False).hits
                score = next(hit.score for hit in hits if hit.crystal.id == one.id)
                assert sum(hit.score > score + 1e-9 for hit in hits) < 5  # any order is right for equal texts


@pytest.mark.full
def test_the_same_is_found_through_chromadb(crystals: Crystals, tmp_path: Path) -> None:
    embedder = BagOfWords()
    crystals.upsert(_note(f"note {number} on the cluster", session="s", position=number) for number in range(50))
    crystals.upsert([_note("The canary was drained", session="s", position=50)])
    crystals.vectors.embed_pending(embedder, 100)
    index = VectorIndex(new_build(tmp_path))
    try:
        keys, vectors = crystals.vectors.unindexed()
        assert vectors is not None
        known = list(crystals.by_keys(keys).values())
        index.add([one.id for one in known], vectors, [one.text for one in known], [{"kind": "fact"} for _ in known])
        crystals.vectors.indexed(keys, [])
        through_index = Searcher(crystals, embedder, index).search("canary drained", NOW)
        exact = Searcher(crystals, embedder).search("canary drained", NOW)
    finally:
        index.close()
    assert through_index.hits[0] == exact.hits[0]
    assert _texts(through_index)[0] == "The canary was drained"
