"""Agents: how to read one record of a session, a function per format, and the table of all formats.

A reader reports to the conversation what was said, done and answered, and leaves out bookkeeping. It raises
RecordError for a malformed record.
"""

import json
from collections.abc import Callable, Mapping

from daemon.ingest.formats.cleaning import spoken
from daemon.ingest.formats.conversation import Conversation, Record, RecordError, moment, text_of
from state.trust import Trust

Reader = Callable[[Record, Conversation], None]


def messages_of(record: Record) -> list[Record] | None:
    """Return the messages of a record that is a whole session, None for any other record."""
    messages = record.get("messages", [] if is_gemini(record) else None)
    return _dicts(messages) if isinstance(messages, list) else None


def opened(record: Record, talk: Conversation, unnamed: str) -> list[Record]:
    """Return the messages of a session, after passing its head to the conversation; else the record itself."""
    messages = messages_of(record)
    if messages is not None:
        talk.begin(_dict(record.get("info")) or record, unnamed)
    elif "role" in record and "type" not in record:
        talk.session = ""  # that of a list of messages on an earlier line
    return [record] if messages is None else messages


def _dict(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Record]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


# Claude Code: ~/.claude/projects/<project>/<session>.jsonl, with messages as in the API.

_UNSAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def is_claude_code(record: Record) -> bool:
    """Return whether this is a line of Claude Code."""
    keys = {"sessionId", "leafUuid", "parentUuid", "messageId"}
    return isinstance(record.get("type"), str) and not keys.isdisjoint(record)


def claude_code(record: Record, talk: Conversation) -> None:
    """Read a record. Records of a subagent (`isSidechain`) are a conversation of their own."""
    kind, message = record.get("type"), _dict(record.get("message"))
    if kind not in ("user", "assistant") or any(record.get(key) is True for key in _UNSAID):
        return
    content = message.get("content")
    if not isinstance(content, str | list):
        raise RecordError(f"of type '{kind}' has no message with content")
    is_side = record.get("isSidechain") is True
    session = str(record.get("sessionId") or talk.name)
    talk.at(record.get("timestamp"), f"{session}/{record.get('agentId') or 'subagent'}" if is_side else session)
    if kind == "user":
        for part in _dicts(content):
            if part.get("type") == "tool_result":
                talk.result(part.get("tool_use_id"), text_of(part.get("content")))
        is_other = _dict(record.get("origin")).get("kind", "human") != "human"
        talk.human(spoken(text_of(content)), is_side=is_side or is_other)
        return
    talk.agent(text_of(content))
    for part in _dicts(content):
        if part.get("type") in ("tool_use", "server_tool_use"):
            # The results of server tools (web_search, web_fetch) are not read, but what follows has read pages.
            trust = Trust.WEB if part["type"] == "server_tool_use" else Trust.AGENT
            talk.call(part.get("id"), part.get("name"), part.get("input"), trust)


# Codex: ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl. Since September 2025 each line is an envelope {timestamp, type,
# payload}; before, a header was followed by bare items. `event_msg` repeats messages for display. A fork repeats its
# parent's header and history; the first header names the session.

_ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "local_shell_call")


def is_codex(record: Record) -> bool:
    """Return whether this is a line of Codex, in the current form or the one without envelopes."""
    kind = record.get("type")
    if isinstance(record.get("payload"), dict):
        return kind in _ENVELOPES
    if "message" in record:
        return False
    header = {"id", "timestamp", "instructions"} <= record.keys()
    return header or "record_type" in record or (kind in _ITEMS and "sessionId" not in record)


def codex(record: Record, talk: Conversation) -> None:
    """Read a record of a rollout."""
    kind = record.get("type")
    item = _dict(record.get("payload")) if kind in _ENVELOPES else record
    if not isinstance(record.get("payload"), dict) and kind in _ENVELOPES:
        raise RecordError(f"of type '{kind}' has no payload")
    if (kind == "session_meta" or (kind is None and "instructions" in record)) and not talk.session:
        talk.session = str(item.get("id") or item.get("session_id") or "")
        talk.is_side = "subagent" in _dict(item.get("source"))
    if kind in _ENVELOPES and kind != "response_item":
        return
    talk.at(record.get("timestamp"))
    match item.get("type"):
        case "message":
            if not isinstance(item.get("content"), str | list):
                raise RecordError("of type 'message' has no content")
            text = text_of(item["content"])
            if item.get("role") == "assistant":
                talk.agent(text)
            elif item.get("role") == "user":
                talk.human(spoken(text))
        case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" as called:
            name, server = item.get("name") or called.removesuffix("_call"), item.get("namespace")
            name = f"{server.rstrip('_')}__{name}" if isinstance(server, str) else name
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            # Rollouts do not contain its result, but what follows has read pages.
            trust = Trust.WEB if called == "web_search_call" else Trust.AGENT
            talk.call(item.get("call_id"), name, arguments, trust)
        case "function_call_output" | "custom_tool_call_output":
            talk.result(item.get("call_id"), _codex_output(item.get("output")))


def _codex_output(output: object) -> str:
    """Return a tool's output: plain text, content parts, or JSON {"output": …, "metadata": …} in a string."""
    if isinstance(output, dict):
        return text_of(output.get("content", output.get("output")))
    if isinstance(output, str) and output.startswith('{"output"'):
        try:
            return _codex_output(json.loads(output))
        except (ValueError, RecursionError):
            return output
    return text_of(output)


# Gemini CLI: ~/.gemini/tmp/<project>/chats/session-*.jsonl, a head and then messages, each repeated under its id when
# it gets tokens, calls or results. Before 2026 it was a JSON document {sessionId, projectHash, messages}.

_FILES = "--- Content from referenced files ---"


def is_gemini(record: Record) -> bool:
    """Return whether this is the head of a session of Gemini CLI."""
    return {"sessionId", "projectHash"} <= record.keys()


def gemini(record: Record, talk: Conversation) -> None:
    """Read a message, or the history that `$set` substitutes for the previous one.

    New messages in such a history come from the program (a summary), so they get at most an agent's trust.
    """
    for one in _dicts(_dict(record.get("$set")).get("messages")):
        if not talk.is_known(str(one.get("id"))) and talk.is_new(f"$set {one.get('id')}"):
            talk.at(one.get("timestamp"))
            talk.agent(_gemini_text(one))
    if isinstance(record.get("$set"), dict) or record.get("type") not in ("user", "gemini"):
        return
    talk.at(record.get("timestamp"))
    if "id" not in record or talk.is_new(str(record["id"])):
        text = _gemini_text(record)
        if record["type"] == "user":
            talk.human(spoken(text))
        else:
            talk.agent(text)
    for call in _dicts(record.get("toolCalls")):
        key = f"{record.get('id')} {call.get('id')}"
        # Register the call again for each result, so that the result keeps the trust of its call.
        talk.call(call.get("id"), call.get("name"), call.get("args"), is_new=talk.is_new(key))
        if call.get("result") is not None and talk.is_new(f"{key} result"):
            talk.result(call.get("id"), _gemini_result(call["result"]))


def _gemini_text(record: Record) -> str:
    """Return the text of a message; of a user's, what was typed: `content` also has the files it refers to."""
    content = record.get("displayContent") or record.get("content")
    if isinstance(content, list):
        content = [one for one in content if not _dict(one).get("thought")]
    return text_of(content).split(_FILES)[0]


def _gemini_result(result: object) -> str:
    """Return the text parts, and the texts in a function's response."""
    found = [text_of(result)]
    for part in _dicts(result):
        response = _dict(_dict(part.get("functionResponse")).get("response"))
        found += [one for one in response.values() if isinstance(one, str)]
    return "\n".join(filter(None, found))


# opencode: `opencode export SESSION` writes {info, messages: [{info, parts}]}. Parts that it adds to a user's message
# by itself (such as a referenced file) are synthetic.


def is_opencode(record: Record) -> bool:
    """Return whether this is a message of opencode, or a session of such messages."""
    if isinstance(messages := record.get("messages"), list):
        return any(map(is_opencode, _dicts(messages)[:20]))
    return isinstance(record.get("parts"), list) and _dict(record.get("info")).get("role") in ("user", "assistant")


def opencode(record: Record, talk: Conversation) -> None:
    """Read a message with its parts."""
    info = record.get("info")
    if not isinstance(info, dict) or not isinstance(record.get("parts"), list):
        raise RecordError("has no info and parts")
    talk.at(_dict(info.get("time")).get("created"), info.get("sessionID"))
    for part in _dicts(record["parts"]):
        state, text = part.get("state"), part.get("text")
        if part.get("type") == "text" and isinstance(text, str) and not part.get("synthetic"):
            if info.get("role") == "user":
                talk.human(spoken(text))
            else:
                talk.agent(text)
        elif part.get("type") == "tool" and isinstance(state, dict):
            talk.call(part.get("callID"), part.get("tool"), state.get("input"))
            if isinstance(output := state.get("output"), str):
                talk.result(part.get("callID"), output)


# OpenAI: {role, content} in a JSON array, in {"messages": […]}, or one per line.

_ROLES = ("assistant", "developer", "function", "system", "tool", "user")
_TIMES = ("timestamp", "created_at", "create_time", "created")


def is_openai(record: Record) -> bool:
    """Return whether this is a message, or an object with a list of messages."""
    if isinstance(messages := record.get("messages"), list):
        return any(map(is_openai, _dicts(messages)[:20]))
    return record.get("role") in _ROLES and ("content" in record or "tool_calls" in record)


def openai(record: Record, talk: Conversation) -> None:
    """Read a message."""
    role, text = record.get("role"), text_of(record.get("content"))
    if role not in _ROLES:
        raise RecordError(f"has the role {str(role)[:40]!r}; known are {', '.join(_ROLES)}")
    talk.at(next((record[key] for key in _TIMES if moment(record.get(key))), None))
    if role == "user":
        talk.human(text)
    elif role == "assistant":
        talk.agent(text)
        for call in _dicts(record.get("tool_calls")):
            if isinstance(function := call.get("function"), dict):
                talk.call(call.get("id"), function.get("name"), function.get("arguments"))
    elif role in ("tool", "function"):
        talk.result(record.get("tool_call_id"), text, record.get("name"))


READERS: Mapping[str, tuple[Callable[[Record], bool], Reader]] = {
    "Codex": (is_codex, codex),
    "Gemini CLI": (is_gemini, gemini),
    "opencode": (is_opencode, opencode),
    "Claude Code": (is_claude_code, claude_code),
    "OpenAI-style messages": (is_openai, openai),
}
"""For each format, a test for its records and its reader; the first test that matches decides."""


def format_of(record: Record) -> str | None:
    """Return the format of a record."""
    return next((name for name, (recognises, _) in READERS.items() if recognises(record)), None)
