"""A dream's record says in which form it is; one of another form is refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from state.dream import RECORD_FORMAT, Dream, decode_record, encode_record
from state.errors import StorageError
from state.reading import Reading
from tests.state.test_codec import dreams


@settings(max_examples=30)
@given(dreams)
def test_a_record_is_read_as_it_was_written_and_says_its_form(dream: Dream) -> None:
    written = encode_record(dream)
    assert json.loads(written)["format"] == RECORD_FORMAT
    # The version has the texts, in which new lines have their places; crystals and what session starts know are rows.
    changes = tuple(replace(one, above=None) for one in dream.changes)
    dream = replace(dream, before="", after="", joined=False, crystals=(), changes=changes, reading=Reading())
    assert decode_record(written, "a record") == decode_record(written.encode(), "a record") == dream
    laid_out = json.dumps(json.loads(written), indent=1)  # by a person who looked at it
    assert decode_record(laid_out, "a record") == dream


def test_a_record_of_a_newer_dreamd_is_told_apart_from_a_damaged_one() -> None:
    newer = json.dumps({"format": RECORD_FORMAT + 1, "unheard_of": True})
    with pytest.raises(StorageError, match=r"^history/000007.json: written by a newer dreamd .*upgrade$"):
        decode_record(newer, "history/000007.json")


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '{"format":1}',
        '{"number":1}',
        '{"format":"1"}',
        '{"format":true}',
        "\ud800",
        "[" * 5000,
    ],
)
def test_what_is_no_record_is_an_error_that_names_it(damaged: str) -> None:
    with pytest.raises(StorageError, match=r"^record 7: .*dreamd doctor"):
        decode_record(damaged, "record 7")
