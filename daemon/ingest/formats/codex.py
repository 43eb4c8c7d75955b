"""Codex: rollouts in ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl.

Since September 2025 each line is {timestamp, type, payload}, and what was said is in the payloads of `response_item`;
before, a header {id, timestamp, instructions} was followed by the items themselves. `event_msg` repeats messages for
the screen and is not read. A fork repeats its parent's header and history: the first header names the session, and
repeated turns are the same crystals.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from daemon.ingest.formats.cleaning import clean, spoken
from daemon.ingest.formats.tool_calls import OpenCalls, text_of
from daemon.ingest.formats.turn import RawTurn, Record, RecordError, moment
from state.trust import Trust

# Tuples: what a record says may be unhashable.
_ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "local_shell_call")


def recognises(record: Record) -> bool:
    """Whether this is a line of Codex, in the form of today or the one without envelopes."""
    kind = record.get("type")
    if isinstance(record.get("payload"), dict):
        return kind in _ENVELOPES
    if "message" in record:
        return False
    header = {"id", "timestamp", "instructions"} <= record.keys()
    return header or "record_type" in record or (kind in _ITEMS and "sessionId" not in record)


class Codex:
    """Reads one rollout, record by record."""

    def __init__(self, memory: Record, name: str) -> None:
        self._name = name
        self._session = str(memory.get("session") or "")
        self._side = memory.get("side") is True
        self._calls = OpenCalls(memory.get("calls"))

    def carry(self) -> Record:
        return {"session": self._session, "side": self._side, "calls": self._calls.carry()}

    def read(self, record: Record, line: int) -> Iterable[RawTurn]:
        del line
        kind, payload = record.get("type"), record.get("payload")
        at = moment(record.get("timestamp"))
        if kind in _ENVELOPES and not isinstance(payload, dict):
            raise RecordError(f"of type '{kind}' has no payload")
        if kind == "session_meta" and isinstance(payload, dict):
            self._begin(payload)
        elif kind is None and "instructions" in record:
            self._begin(record)
        item = payload if kind == "response_item" and isinstance(payload, dict) else record
        if kind in _ENVELOPES and kind != "response_item":
            return
        for turn in self._item(item):
            yield replace(turn, at=at, session=self._session or self._name)

    def _begin(self, header: Record) -> None:
        if not self._session:
            self._session = str(header.get("id") or header.get("session_id") or "")
            source = header.get("source")
            self._side = isinstance(source, dict) and "subagent" in source

    def _item(self, item: Record) -> Iterator[RawTurn]:
        match item.get("type"):
            case "message":
                yield from self._message(item)
            case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" as kind:
                arguments = item.get("arguments") or item.get("input") or item.get("action")
                name = item.get("name") or kind.removesuffix("_call")
                if isinstance(server := item.get("namespace"), str):
                    name = f"{server.rstrip('_')}__{name}"
                call = self._calls.open(item.get("call_id"), name, arguments)
                # Its answer stands in no rollout: what follows has read pages.
                yield replace(call, trust=Trust.WEB) if kind == "web_search_call" else call
            case "function_call_output" | "custom_tool_call_output":
                yield self._calls.close(item.get("call_id"), _output(item.get("output")))

    def _message(self, item: Record) -> Iterator[RawTurn]:
        if not isinstance(item.get("content"), (str, list)):
            raise RecordError("of type 'message' has no content")
        text = text_of(item["content"])
        if item.get("role") == "assistant":
            yield RawTurn(clean(text), "assistant", Trust.AGENT)
        elif item.get("role") == "user":
            # A subagent's user is the agent that started it.
            human = not self._side
            yield RawTurn(clean(spoken(text)), *(("user", Trust.OWNER) if human else ("assistant", Trust.AGENT)))


def _output(output: object) -> str:
    """A tool's output: plain, as content parts, or as JSON {"output": ..., "metadata": ...} in a string."""
    if isinstance(output, dict):
        inner = output.get("content", output.get("output"))
        return text_of(inner)
    if isinstance(output, str) and output.startswith('{"output"'):
        try:
            return _output(json.loads(output))
        except (ValueError, RecursionError):
            return output
    return text_of(output)
