"""Arguments as models send them: read in the one way in which they can be meant, or left as they are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.mcp.tools import TOOLSETS, convert_arguments, input_schema

TOOLS = {tool.name: tool for tools in TOOLSETS.values() for tool in tools}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)


@pytest.mark.parametrize(
    ("tool", "sent", "read"),
    [
        ("memory_search", {"query": "tea", "limit": "5", "since": "2026-03-01"}, ("limit", 5)),
        ("memory_search", {"query": "tea", "limit": 5.0}, ("limit", 5)),
        ("memory_search", {"query": "tea", "limit": "5.0"}, ("limit", 5)),
        ("memory_search", {"query": "tea", "all": "true"}, ("all", True)),
        ("memory_search", {"query": "tea", "all": " False"}, ("all", False)),
        ("memory_search", {"query": "tea", "all": "yes"}, ("all", "yes")),
        ("memory_search", {"query": "true", "all": None}, ("query", "true")),
        ("memory_search", {"query": "5", "since": " 2026-03-01"}, ("since", "2026-03-01")),
        ("memory_search", {"query": "tea", "trust": " Owner "}, ("trust", "owner")),
        ("working_memory_note", {"note": "tea", "importance": "0.8"}, ("importance", 0.8)),
        ("working_memory_note", {"note": "7", "importance": " .5"}, ("importance", 0.5)),
        ("working_memory_bulk_promote", {"session_id": "7", "memory_ids": '["1", "2"]'}, ("memory_ids", ["1", "2"])),
        ("working_memory_add", {"content": "c", "metadata": '{"a": "b"}'}, ("metadata", {"a": "b"})),
        ("session_open", {"config": {"soft_limit": "7", "enabled": None}}, ("config", {"soft_limit": 7})),
    ],
)  # fmt: skip
def test_what_can_be_meant_in_one_way_is_read_so(tool: str, sent: dict[str, Any], read: tuple[str, Any]) -> None:
    name, value = read
    shown = convert_arguments(sent, input_schema(TOOLS[tool]))
    assert (shown[name], type(shown[name])) == (value, type(value))


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_null_is_as_good_as_nothing_where_nothing_is_wanted(tool: Any) -> None:
    """As clients send it that convert schemas to OpenAI's strict form, in which every field is required."""
    schema = input_schema(tool)
    required = schema.get("required", [])
    for name, part in schema["properties"].items():
        if name not in required:
            assert None in part.get("enum", [None]), name
            assert "null" in part["type"], name
        assert part.get("additionalProperties", False) is False, name
    every = dict.fromkeys(schema["properties"], None)
    assert convert_arguments(every, schema) == dict.fromkeys(required, None)


def test_an_empty_text_means_nothing_where_no_text_can_be_meant() -> None:
    schema = input_schema(TOOLS["memory_search"])
    sent = {"query": "", "limit": "", "since": "", "trust": "", "speaker": "", "unknown": ""}
    assert convert_arguments(sent, schema) == {"query": "", "speaker": "", "unknown": ""}
    sent = {"query": "null", "limit": "null", "since": "null", "trust": "None", "speaker": "undefined", "all": "null"}
    assert convert_arguments(sent, schema) == {"query": "null"}


@given(st.sampled_from(list(TOOLS.values())), st.data())
def test_whatever_is_sent_is_read_or_left_and_reading_twice_changes_nothing(tool: Any, data: st.DataObject) -> None:
    schema = input_schema(tool)
    names = st.sampled_from([*schema["properties"], "unknown"])
    sent = data.draw(st.dictionaries(names, JSON, max_size=4))
    once = convert_arguments(sent, schema)
    json.dumps(once)
    assert convert_arguments(once, schema) == once
    assert {name: value for name, value in sent.items() if name == "unknown"}.items() <= once.items()
