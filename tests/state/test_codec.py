"""Values as JSON and back: nothing is half read."""

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codec import decode, encode, plain
from state.crystals.crystal import Crystal
from state.document.operations import Refusal
from state.dream import Dream, Proposed
from state.errors import StorageError
from tests.support.long_variants import examples

LEVELS = st.floats(0, 1)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))
PLAIN: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12), int: st.integers(0, 10**9), float: LEVELS, bool: st.booleans(), datetime: MOMENTS,
}  # fmt: skip


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of this type: of a dataclass with every field drawn."""
    if kind in PLAIN:
        return PLAIN[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{one.name: values(hints[one.name]) for one in fields(kind) if one.init})
    given = get_args(kind)
    if get_origin(kind) is tuple:
        assert given[1] is ...
        return st.lists(values(given[0]), max_size=2).map(tuple)
    return st.one_of([values(one) for one in given]) if given else st.from_type(kind)


crystals, refusals, proposed, dreams = map(values, (Crystal, Refusal, Proposed, Dream))


@examples(60)
@given(st.one_of(dreams, proposed, crystals))
def test_decode_undoes_encode(value: object) -> None:
    assert decode(type(value), encode(value)) == value
    assert decode(type(value), encode(value).encode()) == value


@given(st.one_of(crystals, refusals))
def test_a_value_is_one_row_of_json_and_plain_is_the_same(value: object) -> None:
    assert "\n" not in encode(value)
    assert json.loads(encode(value)) == plain(value)


REFUSAL = {"guard": "citation", "scope": "operation", "figures": "it cites nothing"}


@pytest.mark.parametrize(
    "broken",
    [
        REFUSAL | {"spare": 1},
        {"guard": "citation", "scope": "operation"},
        REFUSAL | {"figures": 3},
        REFUSAL | {"operation": {"action": "add", "section": "The Bond", "text": "a", "spare": 1}},
        REFUSAL | {"operation": {"action": "burn", "section": "The Bond", "text": "a"}},
        [],
        None,
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_record(broken: object) -> None:
    with pytest.raises(StorageError, match=r"^record 7: .*dreamd doctor"):
        decode(Refusal, json.dumps(broken), "record 7")


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"guard": "a"', b"\xff\xfe", "[" * 5000])
def test_what_is_no_json_is_an_error(text: str | bytes) -> None:
    with pytest.raises(StorageError):
        decode(Refusal, text)
