"""Search of what is not in the stores yet, beside what is."""

from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.crystals.crystal import Origin
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Beside, Searcher
from state.stores.database.connection import memory_database
from tests.stores.crystals.test_search import NOW, _note, sentences
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
