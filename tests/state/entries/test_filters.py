"""Which entries a filter wants."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import _compare_values

from state.entries.filters import passes, unknown_operators
from tests.support.long_variants import examples

scalars = st.integers(-3, 3) | st.sampled_from([0.5, 2.5])
wanted = scalars | st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), scalars, min_size=1)


@examples(200)
@given(st.dictionaries(st.sampled_from("ab"), scalars, min_size=2), st.dictionaries(st.sampled_from("ab"), wanted))
def test_of_numbers_it_wants_what_langgraph_s_filter_wants(value: dict[str, Any], filter_: dict[str, Any]) -> None:
    assert passes(value, filter_) is all(_compare_values(value.get(name), one) for name, one in filter_.items())


@pytest.mark.parametrize(
    ("filter_", "is_wanted"),
    [
        ({}, True),
        ({"name": "Ada"}, True),
        ({"name": {"$gt": "A", "$lt": "B"}}, True),
        ({"name": {"$gt": 1}}, False),
        ({"gone": {"$lte": 1}}, False),
        ({"gone": {"$ne": 1}}, True),
        ({"gone": None}, True),
        ({"active": True}, True),
        ({"active": 1}, False),
        ({"tags": ["a", "b"]}, True),
        ({"tags": ["b"]}, False),
        ({"home": {"city": "Köln"}}, True),
        ({"home": {"city": {"$ne": "Köln"}}}, False),
        ({"home.city": "Köln"}, True),
        ({"home.zip.first": 5}, False),
        ({"a.b": 1}, True),
        ({"name": {"x": 1}}, False),
    ],
)
def test_what_is_wanted(filter_: dict[str, Any], is_wanted: bool) -> None:  # noqa: FBT001
    value = {"name": "Ada", "active": True, "tags": ["a", "b"], "home": {"city": "Köln", "zip": 5}, "a.b": 1}
    assert passes(value, filter_) is is_wanted


def test_operators_that_there_are_not_are_named() -> None:
    assert unknown_operators({"a": {"$gt": 1, "$in": [1]}, "$or": [], "b": {"c": {"$x": 1}}}) == ["$or", "$in", "$x"]
