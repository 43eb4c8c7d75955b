"""Agents: what is said in one record of a session, a function for each format, and the table of all formats.

A reader takes a record and what is known of its file so far. It yields what was said, done and answered, and nothing
for bookkeeping; it raises RecordError for a record of broken shape.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from daemon.ingest.formats.cleaning import clean, spoken
from daemon.ingest.formats.tool_calls import OpenCalls, text_of
from daemon.ingest.formats.turn import RawTurn, Record, RecordError, moment
from state.trust import Trust

_MOST_SEEN = 512


@dataclass(slots=True)
class Known:
    """What is known of a file: its name, its session, whether a subagent speaks, and which calls await results.

    `seen`: the latest messages and calls of a file that repeats them as they grow.
    """

    name: str
    session: str = ""
    side: bool = False
    calls: OpenCalls = field(default_factory=OpenCalls)
    seen: dict[str, None] = field(default_factory=dict)

    @classmethod
    def remembered(cls, memory: Record, name: str) -> "Known":
        """Return what was known at a watermark."""
        seen = memory.get("seen")
        return cls(
            name,
            str(memory.get("session") or ""),
            memory.get("side") is True,
            OpenCalls(memory.get("calls")),
            dict.fromkeys(map(str, seen)) if isinstance(seen, list) else {},
        )

    def carry(self) -> Record:
        """Return what must be known to go on after this record."""
        return {"session": self.session, "side": self.side, "calls": self.calls.carry(), "seen": list(self.seen)}

    def begin(self, head: Record, unnamed: str = "") -> None:
        """Take in the head of a session."""
        named = (head.get(key) for key in ("sessionId", "id", "session_id", "conversation_id"))
        self.session = str(next(filter(None, named), unnamed))
        self.side = head.get("kind") == "subagent" or bool(head.get("parentID"))

    def is_new(self, key: str) -> bool:
        """Return whether this is seen for the first time, as far back as that is known."""
        if key in self.seen:
            return False
        self.seen[key] = None
        if len(self.seen) > _MOST_SEEN:
            del self.seen[next(iter(self.seen))]
        return True


Reader = Callable[[Record, Known], Iterable[RawTurn]]


def messages_of(record: Record, known: Known, unnamed: str) -> list[Record]:
    """Return the messages of a record that is a whole session, whose head becomes known; else the record itself."""
    messages = record.get("messages", [] if is_gemini(record) else None)
    if isinstance(messages, list):
        info = record.get("info")
        known.begin(info if isinstance(info, dict) else record, unnamed)
        return _dicts(messages)
    if "role" in record and "type" not in record:
        known.session = ""  # of a list of messages on an earlier line
    return [record]


def _human(text: str, *, side: bool = False) -> RawTurn:
    """Return what the user said; the user of a subagent is the agent that started it."""
    return RawTurn(clean(text), *(("assistant", Trust.AGENT) if side else ("user", Trust.OWNER)))


def _agent(text: str) -> RawTurn:
    return RawTurn(clean(text), "assistant", Trust.AGENT)


def _of(turns: Iterable[RawTurn], at: datetime | None, session: str) -> Iterator[RawTurn]:
    return (replace(turn, at=at, session=session) for turn in turns)


def _dicts(value: object) -> list[Record]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


# Claude Code: ~/.claude/projects/<project>/<session>.jsonl, messages as the API has them.

_UNSAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def is_claude_code(record: Record) -> bool:
    """Return whether this is a line of Claude Code."""
    keys = {"sessionId", "leafUuid", "parentUuid", "messageId"}
    return isinstance(record.get("type"), str) and not keys.isdisjoint(record)


def claude_code(record: Record, known: Known) -> Iterable[RawTurn]:
    """Read a record. Those of a subagent (`isSidechain`) are a conversation of their own."""
    kind, message = record.get("type"), record.get("message")
    if kind not in ("user", "assistant") or any(record.get(key) is True for key in _UNSAID):
        return ()
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
        raise RecordError(f"of type '{kind}' has no message with content")
    side = record.get("isSidechain") is True
    session = str(record.get("sessionId") or known.name)
    session += f"/{record.get('agentId') or 'subagent'}" if side else ""
    if kind == "assistant":
        turns = _claude_answer(message["content"], known)
    else:
        origin = record.get("origin")
        other = isinstance(origin, dict) and origin.get("kind", "human") != "human"
        turns = _claude_request(message["content"], known, side=side or other)
    return _of(turns, moment(record.get("timestamp")), session)


def _claude_request(content: object, known: Known, *, side: bool) -> Iterator[RawTurn]:
    for part in _dicts(content):
        if part.get("type") == "tool_result":
            yield known.calls.close(part.get("tool_use_id"), text_of(part.get("content")))
    yield _human(spoken(text_of(content)), side=side)


def _claude_answer(content: object, known: Known) -> Iterator[RawTurn]:
    yield _agent(text_of(content))
    for part in _dicts(content):
        if part.get("type") in ("tool_use", "server_tool_use"):
            call = known.calls.open(part.get("id"), part.get("name"), part.get("input"))
            # What the server's tools (web_search, web_fetch) answer is not read: what follows has read pages.
            yield replace(call, trust=Trust.WEB) if part.get("type") == "server_tool_use" else call


# Codex: ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl. Since September 2025 each line is an envelope {timestamp, type,
# payload}; before, a header was followed by the items themselves. `event_msg` repeats messages for the screen. A fork
# repeats its parent's header and history: the first header names the session.

_ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "local_shell_call")


def is_codex(record: Record) -> bool:
    """Return whether this is a line of Codex, in the form of today or the one without envelopes."""
    kind = record.get("type")
    if isinstance(record.get("payload"), dict):
        return kind in _ENVELOPES
    if "message" in record:
        return False
    header = {"id", "timestamp", "instructions"} <= record.keys()
    return header or "record_type" in record or (kind in _ITEMS and "sessionId" not in record)


def codex(record: Record, known: Known) -> Iterable[RawTurn]:
    """Read a record of a rollout."""
    kind, item = record.get("type"), record.get("payload")
    if kind not in _ENVELOPES:
        item = record
    elif not isinstance(item, dict):
        raise RecordError(f"of type '{kind}' has no payload")
    assert isinstance(item, dict)
    if (kind == "session_meta" or (kind is None and "instructions" in record)) and not known.session:
        source = item.get("source")
        known.session = str(item.get("id") or item.get("session_id") or "")
        known.side = isinstance(source, dict) and "subagent" in source
    if kind in _ENVELOPES and kind != "response_item":
        return ()
    return _of(_codex_item(item, known), moment(record.get("timestamp")), known.session or known.name)


def _codex_item(item: Record, known: Known) -> Iterator[RawTurn]:
    match item.get("type"):
        case "message":
            if not isinstance(item.get("content"), str | list):
                raise RecordError("of type 'message' has no content")
            text = text_of(item["content"])
            if item.get("role") == "assistant":
                yield _agent(text)
            elif item.get("role") == "user":
                yield _human(spoken(text), side=known.side)
        case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" as kind:
            name, server = item.get("name") or kind.removesuffix("_call"), item.get("namespace")
            name = f"{server.rstrip('_')}__{name}" if isinstance(server, str) else name
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            call = known.calls.open(item.get("call_id"), name, arguments)
            # Its answer stands in no rollout: what follows has read pages.
            yield replace(call, trust=Trust.WEB) if kind == "web_search_call" else call
        case "function_call_output" | "custom_tool_call_output":
            yield known.calls.close(item.get("call_id"), _codex_output(item.get("output")))


def _codex_output(output: object) -> str:
    """Return a tool's output: it is plain, content parts, or JSON {"output": …, "metadata": …} in a string."""
    if isinstance(output, dict):
        return text_of(output.get("content", output.get("output")))
    if isinstance(output, str) and output.startswith('{"output"'):
        try:
            return _codex_output(json.loads(output))
        except (ValueError, RecursionError):
            return output
    return text_of(output)


# Gemini CLI: ~/.gemini/tmp/<project>/chats/session-*.jsonl, a head and then messages, each again under its id when it
# has got tokens, calls or results. Before 2026 it was a JSON document {sessionId, projectHash, messages}.

_FILES = "--- Content from referenced files ---"


def is_gemini(record: Record) -> bool:
    """Return whether this is the head of a session of Gemini CLI."""
    return {"sessionId", "projectHash"} <= record.keys()


def gemini(record: Record, known: Known) -> Iterator[RawTurn]:
    """Read a message, or the history that `$set` puts in place of the one before.

    What is new in such a history was written by the program (a summary), so it has an agent's trust at most.
    """
    session, update = known.session or known.name, record.get("$set")
    if isinstance(update, dict):
        for one in _dicts(update.get("messages")):
            if str(one.get("id")) not in known.seen and known.is_new(f"$set {one.get('id')}"):
                yield from _of([_agent(_gemini_text(one))], moment(one.get("timestamp")), session)
    elif record.get("type") in ("user", "gemini"):
        yield from _of(_gemini_message(record, known), moment(record.get("timestamp")), session)


def _gemini_message(record: Record, known: Known) -> Iterator[RawTurn]:
    if "id" not in record or known.is_new(str(record["id"])):
        text = _gemini_text(record)
        yield _human(spoken(text), side=known.side) if record["type"] == "user" else _agent(text)
    for call in _dicts(record.get("toolCalls")):
        # Opened again for each result, so that the result never loses what its call says of its trust.
        opened = known.calls.open(call.get("id"), call.get("name"), call.get("args"))
        if known.is_new(f"{record.get('id')} {call.get('id')}"):
            yield opened
        if call.get("result") is not None and known.is_new(f"{record.get('id')} {call.get('id')} result"):
            yield known.calls.close(call.get("id"), _gemini_result(call["result"]))


def _gemini_text(record: Record) -> str:
    """Return the text of a message, of a user's what was typed: `content` has files that it names as well."""
    content = record.get("displayContent") or record.get("content")
    if isinstance(content, list):
        content = [one for one in content if not (isinstance(one, dict) and one.get("thought"))]
    return text_of(content).split(_FILES)[0]


def _gemini_result(result: object) -> str:
    """Return text parts, and the texts in a function's response."""
    found = [text_of(result)]
    for part in _dicts(result):
        answer = part.get("functionResponse")
        response = answer.get("response") if isinstance(answer, dict) else None
        found += [one for one in response.values() if isinstance(one, str)] if isinstance(response, dict) else []
    return "\n".join(filter(None, found))


# opencode: `opencode export SESSION` writes {info, messages: [{info, parts}]}. What it puts into a user's message by
# itself (a file that was named) is synthetic.


def is_opencode(record: Record) -> bool:
    """Return whether this is a message of opencode, or a session with some."""
    if isinstance(messages := record.get("messages"), list):
        return any(map(is_opencode, _dicts(messages)[:20]))
    parts, info = record.get("parts"), record.get("info")
    return isinstance(parts, list) and isinstance(info, dict) and info.get("role") in ("user", "assistant")


def opencode(record: Record, known: Known) -> Iterable[RawTurn]:
    """Read a message with its parts."""
    info = record.get("info")
    if not isinstance(info, dict) or not isinstance(record.get("parts"), list):
        raise RecordError("has no info and parts")
    time = info.get("time")
    at = moment(time.get("created")) if isinstance(time, dict) else None
    return _of(_opencode_parts(info, record, known), at, str(info.get("sessionID") or known.session or known.name))


def _opencode_parts(info: Record, record: Record, known: Known) -> Iterator[RawTurn]:
    for part in _dicts(record["parts"]):
        state, text = part.get("state"), part.get("text")
        if part.get("type") == "text" and isinstance(text, str) and not part.get("synthetic"):
            yield _human(spoken(text), side=known.side) if info.get("role") == "user" else _agent(text)
        elif part.get("type") == "tool" and isinstance(state, dict):
            yield known.calls.open(part.get("callID"), part.get("tool"), state.get("input"))
            if isinstance(output := state.get("output"), str):
                yield known.calls.close(part.get("callID"), output)


# OpenAI: {role, content} as a JSON array, as {"messages": […]}, or one a line.

_ROLES = ("assistant", "developer", "function", "system", "tool", "user")
_TIMES = ("timestamp", "created_at", "create_time", "created")


def is_openai(record: Record) -> bool:
    """Return whether this is a message, or an object with a list of messages."""
    if isinstance(messages := record.get("messages"), list):
        return any(map(is_openai, _dicts(messages)[:20]))
    return record.get("role") in _ROLES and ("content" in record or "tool_calls" in record)


def openai(record: Record, known: Known) -> Iterable[RawTurn]:
    """Read a message."""
    if record.get("role") not in _ROLES:
        raise RecordError(f"has the role {str(record.get('role'))[:40]!r}; known are {', '.join(_ROLES)}")
    at = next(filter(None, (moment(record.get(key)) for key in _TIMES)), None)
    return _of(_openai_message(record, known), at, known.session or known.name)


def _openai_message(record: Record, known: Known) -> Iterator[RawTurn]:
    text = text_of(record.get("content"))
    match record["role"]:
        case "user":
            yield _human(text)
        case "assistant":
            yield _agent(text)
            for call in _dicts(record.get("tool_calls")):
                if isinstance(function := call.get("function"), dict):
                    yield known.calls.open(call.get("id"), function.get("name"), function.get("arguments"))
        case "tool" | "function":
            name = record.get("name")
            yield known.calls.close(
                record.get("tool_call_id"), text, name if isinstance(name, str) and name else "tool"
            )


READERS: Mapping[str, tuple[Callable[[Record], bool], Reader]] = {
    "Codex": (is_codex, codex),
    "Gemini CLI": (is_gemini, gemini),
    "opencode": (is_opencode, opencode),
    "Claude Code": (is_claude_code, claude_code),
    "OpenAI-style messages": (is_openai, openai),
}
"""Whether a record is of the format, and its reader; in the order in which they are asked."""


def format_of(record: Record) -> str | None:
    """Return the format of a record."""
    return next((name for name, (recognises, _) in READERS.items() if recognises(record)), None)
