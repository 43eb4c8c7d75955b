"""Texts as people and tools write them: of the secrets most go, of what only looks like one next to nothing does."""

from collections import Counter
from collections.abc import Sequence

import pytest

from state.secrets.redaction import redact
from tests.redteam.corpus import CORPORA, entries, is_left
from tests.support.long_variants import is_whole, variants

# What is reached on this corpus less what chance takes from it; benchmarks/redaction.py prints the figures.
# The weights are fitted on these texts: of the fourth author's, met for the first time before anything was
# fitted on them, 89.6 % of the secrets went, and 2.75 % of the harmless texts were changed.
LEAST_CAUGHT = {"a": 0.94, "b": 0.93, "c": 0.93, "d": 0.92}
LEAST_OF_A_LANGUAGE, MOST_CHANGED = 0.84, 0.004


@pytest.mark.full
@pytest.mark.parametrize("author", LEAST_CAUGHT)
@pytest.mark.parametrize("seeds", variants((1,), range(1, 6)))
def test_of_a_hundred_secrets_most_go(author: str, seeds: Sequence[int]) -> None:
    of, missed = Counter[str](), Counter[str]()
    for entry in (entry for seed in seeds for entry in entries(CORPORA / f"secrets_{author}.jsonl", seed)):
        of[entry.language] += 1
        missed[entry.language] += is_left(entry, redact(entry.text).text)
    assert of.total() >= 800
    assert missed.total() <= (1 - LEAST_CAUGHT[author]) * of.total(), missed
    assert not [language for language, count in of.items() if missed[language] > (1 - LEAST_OF_A_LANGUAGE) * count]


@pytest.mark.full
@pytest.mark.parametrize("seeds", variants((1,), range(1, 6)))
def test_of_a_thousand_harmless_texts_fewer_than_five_are_changed(seeds: Sequence[int]) -> None:
    files = [CORPORA / f"harmless_{author}.jsonl" for author in [*LEAST_CAUGHT][:: 1 if is_whole() else 2]]
    harmless = [entry.text for file in files for seed in seeds for entry in entries(file, seed)]
    changed = [text for text in harmless if redact(text).text != text]
    assert len(changed) < MOST_CHANGED * len(harmless), changed[:9]


def test_what_agents_note_of_ports_servers_and_numbers_stays() -> None:
    notes = [entry.text for entry in entries(CORPORA / "harmless_notes.jsonl")]
    assert [text for text in notes if redact(text).text != text] == []


def test_the_measure_notices_a_secret_that_stays() -> None:
    assert all(is_left(entry, entry.text) for entry in entries(CORPORA / "secrets_a.jsonl"))
