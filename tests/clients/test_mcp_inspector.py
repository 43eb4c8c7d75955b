"""The MCP Inspector, by its command line, with the server of the plugin that `dreamd connect` writes."""

import json

import pytest

from tests.support.native_clients import Person

TEA = "Ada prefers tea over coffee in the morning"

pytestmark = pytest.mark.full


def test_the_inspector_lists_calls_and_reads(ada: Person) -> None:
    assert ada.dreamd("connect", "claude-code", "--yes").status == 0
    # It ends with 6 where a schema is not portable.
    listed = ada.inspect("--method", "tools/list", "--strict")
    assert listed.status == 0, listed.err
    assert {"working_memory_note", "memory_search"} <= {tool["name"] for tool in listed.json["tools"]}
    noted = ada.inspect("--method", "tools/call", "--tool-name", "working_memory_note", "--tool-arg", f"note={TEA}")
    assert noted.json["content"][0]["text"].startswith("noted "), noted.err
    asked = ("--tool-name", "memory_search", "--tool-arg", "query=what does Ada drink?", "limit=3")
    found = ada.inspect("--method", "tools/call", *asked)
    assert TEA in found.json["content"][0]["text"]
    read = ada.inspect("--method", "resources/read", "--uri", "memory://bootstrap")
    assert TEA in json.dumps(read.json)
