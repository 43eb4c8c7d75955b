"""Of each field of a record somebody has said whether it is words; what is words is erased, the rest stays."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from daemon.upkeep.forget_proof import occurrences_in
from graphs.ports import Answer, Request
from state.dream import Dream, StagedChange
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.erasing import plan
from state.stores.erasing.plan import WORDS, Erasure

SECRET = "the vault code is 4711"
ERASURE = Erasure((Target.of(SECRET),), Cut.SENTENCES)
# Ids, digests, moments, names of models, guards and files, and words that dreamd chooses among.
CODES = frozenset(
    "id cause reason mood author guard scope crystal line evidence replaces parents dreamt redreamt dream"
    " file digest heard model prompts finish_reason schema_name until".split()
)


def named(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the name of every field of text in a record."""
    for one in (kind, *get_args(kind)):
        if is_dataclass(one) and one not in seen:
            seen.add(one)
            hints = get_type_hints(one)
            for field in fields(one):
                inner = hints[field.name]
                if str in (inner, *get_args(inner)):
                    yield field.name
                yield from named(inner, seen)
        elif one is not kind:
            yield from named(one, seen)


@pytest.mark.parametrize("kind", [Dream, StagedChange, Answer, Request])
def test_each_field_of_text_is_somebodys_words_or_a_code(kind: Any) -> None:
    assert set(named(kind, set())) <= WORDS | plan._BESIDE | plan._DOCUMENTS | CODES
    assert not CODES & WORDS


def test_a_field_that_nobody_named_is_found_by_the_proof() -> None:
    record = {"text": f"Miez is a cat. {SECRET.title()}. Rex is a dog.", "kind": "fact", "odd": [SECRET]}
    left = ERASURE.record(record)
    assert left == {"text": "Miez is a cat. Rex is a dog.", "kind": "fact", "odd": [SECRET]}
    assert occurrences_in(json.dumps(left), ERASURE) == 1


def test_words_of_dreamds_own_stay_in_its_records_and_go_from_a_program_s() -> None:
    erasure = Erasure((Target.of("metadata"), Target.of("text"), Target.of("fact")), Cut.SENTENCES)
    record = {"text": "a fact", "kind": "fact", "metadata": {"text": "so", "why": "fact", "a": "b"}}
    assert erasure.record(record) == {"text": "", "kind": "fact", "metadata": {"why": "", "a": "b"}}
    assert json.loads(erasure.json(json.dumps(record))) == {"kind": ""}


def test_a_row_in_a_list_goes_as_a_whole() -> None:
    rows = [["says", SECRET, {"a": 1}], ["with", "Bo", {SECRET: 1, "b": 2}], SECRET, "Miez"]
    assert json.loads(ERASURE.json(json.dumps(rows))) == [["with", "Bo", {"b": 2}], "Miez"]
