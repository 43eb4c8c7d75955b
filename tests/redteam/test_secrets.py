"""Texts as people and tools write them: of the secrets most go, of what only looks like one next to nothing does."""

import json
from collections import Counter
from collections.abc import Sequence

import pytest

from state.secrets.redaction import redact
from tests.redteam.corpus import CORPORA, entries, is_left
from tests.redteam.facts import LEARNT, OTHERS, facts
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


@pytest.mark.parametrize("seeds", variants((3,), range(30)))
@pytest.mark.parametrize("forms", [LEARNT, OTHERS], ids=["learnt", "others"])
def test_a_name_a_place_a_host_or_an_extension_is_no_secret(forms: str, seeds: Sequence[int]) -> None:
    told = [text for seed in seeds for text in facts(forms, seed, each=2)]
    assert [text for text in told if redact(text).text != text] == []


ONCE_TAKEN_FOR_SECRETS = (
    "hosted on AWS eu-north-1",
    "Depot contact is now Aylin Demirkan (ext. 4420)",
    "Password resets for Jenkins are done by Wei Zhang since 2024.",
    "Wi-Fi in Lyon-3 is run by Chiara Bellini.",
    "AWS eu-north-1 as of today",
)
FACTS: dict[str, tuple[list[str], int]] = {
    "notes of ports, servers and numbers": ([one.text for one in entries(CORPORA / "harmless_notes.jsonl")], 0),
    "facts that were taken for secrets once": ([*ONCE_TAKEN_FOR_SECRETS], 0),
    "facts that nothing was fitted on": ([one.text for one in entries(CORPORA / "harmless_hosts.jsonl")], 0),
    "people who leave a role": ([*facts("{role} is now {person}; {first} has left", seed=5, each=130)], 0),
    # One product name with a version is taken for a secret.
    "facts of an author who saw no rule": (
        [json.loads(row)["text"] for row in (CORPORA / "facts_b.jsonl").read_text("utf-8").splitlines()], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "most"), FACTS.values(), ids=FACTS)
def test_facts_stay(texts: list[str], most: int) -> None:
    assert texts
    assert len([text for text in texts if redact(text).text != text]) <= most


def test_the_measure_notices_a_secret_that_stays() -> None:
    assert all(is_left(entry, entry.text) for entry in entries(CORPORA / "secrets_a.jsonl"))
