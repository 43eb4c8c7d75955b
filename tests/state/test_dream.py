"""A dream's record has what no row has, and is read as it was written."""

from dataclasses import replace

from hypothesis import given, settings

from state.codec import decode
from state.dream import Dream, encode_record
from state.reading import Reading
from tests.state.test_codec import dreams


@settings(max_examples=30)
@given(dreams)
def test_a_record_is_read_as_it_was_written(dream: Dream) -> None:
    # The version has the texts, in which new lines have their places; crystals and what session starts know are rows.
    changes = tuple(replace(one, above=None) for one in dream.changes)
    kept = replace(dream, before="", after="", joined=False, crystals=(), changes=changes, reading=Reading())
    assert decode(Dream, encode_record(dream)) == kept
