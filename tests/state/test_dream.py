"""A dream's record says in which form it is, and one of every form that there was can be read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from state.dream import RECORD_FORMAT, Decided, Decision, Dream, decode_record, encode_record
from state.errors import StorageError
from state.reading import Reading
from tests.state.test_codec import dreams

OLDEST = (
    Path(__file__).parents[1] / "stores/database/record_0.json"
).read_text()  # as it was written before forms had numbers


@settings(max_examples=30)
@given(dreams)
def test_a_record_is_read_as_it_was_written_and_says_its_form(dream: Dream) -> None:
    written = encode_record(dream)
    assert json.loads(written)["format"] == RECORD_FORMAT
    # Where new lines went stands in the text of the version, and what session starts know in a row of its own.
    dream = replace(dream, changes=tuple(replace(one, above=None) for one in dream.changes), reading=Reading())
    assert decode_record(written, "a record") == decode_record(written.encode(), "a record") == dream
    laid_out = json.dumps(json.loads(written), indent=1)  # by a person who looked at it
    assert decode_record(laid_out, "a record") == dream


def test_a_record_without_a_number_is_of_before_there_were_any() -> None:
    dream = decode_record(OLDEST, "history/000001.json")
    assert (dream.number, dream.cause, len(dream.crystals)) == (1, "dream", 2)
    assert decode_record(encode_record(dream), "again") == dream


def test_what_a_former_release_doubted_has_just_applied() -> None:
    dream = decode_record(OLDEST, "a record")
    older = json.loads(OLDEST) | {
        "format": 2,
        "doubts": [{"operation": {"action": "add", "section": "The Bond", "text": "a"}, "figures": "no number"}],
        "decided": [
            {"dream": "d", "place": 0, "decision": "doubtful"},
            {"dream": "d", "place": 1, "decision": "undone"},
        ],
    }
    decided = (Decided("d", 0, Decision.APPLIED), Decided("d", 1, Decision.UNDONE))
    assert decode_record(json.dumps(older), "a record") == replace(dream, decided=decided)


def test_a_record_of_a_newer_dreamd_is_told_apart_from_a_damaged_one() -> None:
    newer = json.dumps(json.loads(OLDEST) | {"format": RECORD_FORMAT + 1, "unheard_of": True})
    with pytest.raises(StorageError, match=r"^history/000007.json: written by a newer dreamd .*upgrade$"):
        decode_record(newer, "history/000007.json")


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", "7", "null", '{"format":1}', '{"format":"1"}', '{"format":true}', "\ud800", "[" * 5000]
)
def test_what_is_no_record_is_an_error_that_names_it(damaged: str) -> None:
    with pytest.raises(StorageError, match=r"^record 7: .*dreamd doctor"):
        decode_record(damaged, "record 7")


def test_a_version_of_before_says_as_changes_what_came_and_what_left() -> None:
    born = {
        "id": "L7",
        "section": "The Bond",
        "text": "Tea.",
        "importance": 0.7,
        "trust": "agent",
        "evidence": ["c1"],
    }
    dead = {
        "id": "L3",
        "section": "The Bond",
        "text": "Cocoa.",
        "fate": "revised",
        "successor": "L7",
        "crystal": "c2",
    }
    gone = dead | {"id": "L4", "text": "Gin.", "fate": "evicted", "successor": ""}
    older = json.loads(OLDEST) | {"format": 4, "births": [born], "deaths": [dead, gone], "merged": "a text"}
    del older["segments"]
    dream = decode_record(json.dumps(older), "a record")
    assert [(one.why.value, [line.text for line in one.gone]) for one in dream.changes] == [
        ("revised", ["Cocoa."]), ("evicted", ["Gin."]),
    ]  # fmt: skip
    (line,) = dream.came
    assert (line.id, line.text, line.born_at, dream.changes[0].evidence) == ("L7", "Tea.", dream.at, ("c1",))
    assert (dream.after, dream.joined, dream.left[0][0].crystal) == ("a text", True, "c2")
