"""Agents: how to read one record of a session, a function per format, and the table of all formats.

A reader reports to the conversation what was said, done and answered, and leaves out bookkeeping. It raises
RecordError for a malformed record.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone

from daemon.ingest.formats.answers import reasons, said_in
from daemon.ingest.formats.conversation import Conversation, Record, RecordError, moment, telling, text_of, texts_of
from daemon.ingest.formats.own_words import CLAUDE_CODE, CODEX, CURSOR, GEMINI, OPENCODE, PLAIN
from state.trust import Trust, is_web

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


# Claude Code: ~/.claude/projects/<project>/<session>.jsonl, with messages as in the API. A message typed while the
# agent works is an attachment, `queued_command`, and may be followed by a user record that says it again; entries of
# `queue-operation` repeat it, without saying who wrote it.

_UNSAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage", "isVirtual")
_AGENTS = ("auto-continuation", "coordinator", "peer", "task-notification")  # kinds of origin
_MODES = ("prompt", "task-notification")  # of a queued command; others are no words
_BY_AGENT = ("planContent", "scheduledTaskId", "wakeupSource")
_NOT_TYPED = ("fromAnotherSession", "textNotTyped")
_TYPED = ("queued", "suggestion_accepted", "typed")  # sources of a prompt; "sdk" is any program
_NO_REASON = ("The user doesn't want to", "Permission for this tool use was denied", "The agent proposed a plan that")


def is_claude_code(record: Record) -> bool:
    """Return whether this is a line of Claude Code."""
    keys = {"sessionId", "leafUuid", "parentUuid", "messageId"}
    return isinstance(record.get("type"), str) and not keys.isdisjoint(record)


def claude_code(record: Record, talk: Conversation) -> None:
    """Read a record. Records of a subagent (`isSidechain`) are a conversation of their own."""
    kind, message = record.get("type"), _dict(record.get("message"))
    queued = _dict(record.get("attachment"))
    is_queued = kind == "attachment" and queued.get("type") == "queued_command"
    if not (is_queued or kind in ("user", "assistant")) or any(record.get(key) is True for key in _UNSAID):
        return
    content = queued.get("prompt") if is_queued else message.get("content")
    if not isinstance(content, str | list):
        raise RecordError(f"of type '{kind}' has no message with content")
    is_side = record.get("isSidechain") is True
    session = str(record.get("sessionId") or talk.name)
    time = is_queued and queued.get("timestamp")
    talk.at(
        time or record.get("timestamp"), f"{session}/{record.get('agentId') or 'subagent'}" if is_side else session
    )
    talk.places = CLAUDE_CODE
    if is_queued:
        _claude_queued(queued, session, talk, is_side=is_side)
    elif kind == "user":
        _claude_user(record, content, session, talk, is_side=is_side)
    else:
        talk.agent(text_of(content))
        for part in _dicts(content):
            if part.get("type") in ("tool_use", "server_tool_use"):
                _claude_call(part, session, talk)


def _claude_call(part: Record, session: str, talk: Conversation) -> None:
    # The results of server tools (web_search, web_fetch) are not read, but what follows has read pages.
    trust = Trust.WEB if part["type"] == "server_tool_use" else Trust.AGENT
    talk.call(part.get("id"), part.get("name"), part.get("input"), trust)
    prompt = _dict(part.get("input")).get("prompt")
    if part.get("name") in CLAUDE_CODE.scheduling and isinstance(prompt, str):
        talk.is_new(_key("scheduled", session, prompt))


def _claude_user(record: Record, content: object, session: str, talk: Conversation, *, is_side: bool) -> None:
    """Read the results in a user's record, and what was said, unless the queue has said it."""
    for part in _dicts(content):
        if part.get("type") == "tool_result":
            answer, result = record.get("toolUseResult"), text_of(part.get("content"))
            answer = answer if isinstance(answer, dict) and "answers" in answer else None
            told = _claude_reasons(record, part, result)
            talk.result(part.get("tool_use_id"), result, answer=answer, reasons=told)
    text, source = text_of(content), record.get("promptSource")
    if talk.is_known(f"queued {record.get('uuid')}"):
        return
    if source in (None, "queued") and talk.forget(_key("queued", session, text)):
        return
    trust = _claude_trust(record)
    if trust is Trust.OWNER and source not in _TYPED and talk.is_known(_key("scheduled", session, text)):
        trust = Trust.AGENT
    is_typed = _dict(record.get("origin")).get("kind") == "human" or source in _TYPED
    talk.user(content, trust=trust, is_typed=is_typed, is_side=is_side)


def _claude_queued(queued: Record, session: str, talk: Conversation, *, is_side: bool) -> None:
    """Read a message of the queue, which a resumed session may have copied."""
    if queued.get("isMeta") is True or queued.get("commandMode", "prompt") not in _MODES:
        return
    if (uuid := queued.get("source_uuid")) and not talk.is_new(f"queued {uuid}"):
        return
    talk.is_new(_key("queued", session, text_of(queued["prompt"])))
    is_typed = _dict(queued.get("origin")).get("kind") == "human"
    talk.user(queued["prompt"], trust=_claude_trust(queued), is_typed=is_typed, is_side=is_side)


def _claude_trust(record: Record) -> Trust:
    """Return who wrote a prompt, as far as its record or its entry in the queue says so."""
    kind = _dict(record.get("origin")).get("kind", record.get("commandMode"))
    if kind in _AGENTS or any(record.get(key) for key in _BY_AGENT):
        return Trust.AGENT
    is_other = kind not in (None, "human", "prompt") or record.get("promptSource") == "system"
    return Trust.TOOL if is_other or any(record.get(key) is True for key in _NOT_TYPED) else Trust.OWNER


def _claude_reasons(record: Record, part: Record, result: str) -> list[str]:
    """Return what a person said when refusing this call. What a tool printed may look like a refusal."""
    decision = _dict(record.get("permissionDecision"))
    is_refused = str(decision.get("source")).startswith("user_") and decision.get("decision") == "reject"
    if not (is_refused if decision else part.get("is_error") is True):
        return []
    found = reasons(CLAUDE_CODE, result)
    if not found and record.get("holdsPersonsWords") is True and not result.lstrip().startswith(_NO_REASON):
        found = said_in(result)  # another program asked the person, and passed on the words alone
    return found


def _key(kind: str, session: str, text: str) -> str:
    return f"{kind} {hashlib.sha256(f'{session} {text.strip()}'.encode(errors='replace')).hexdigest()[:16]}"


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
    if kind == "session_meta" or (kind is None and "instructions" in record):
        _codex_head(item, talk)
    if kind in _ENVELOPES and kind != "response_item":
        return
    talk.at(record.get("timestamp"))
    talk.places = CODEX
    match item.get("type"):
        case "message":
            if not isinstance(item.get("content"), str | list):
                raise RecordError("of type 'message' has no content")
            if item.get("role") == "assistant":
                talk.agent(text_of(item["content"]))
            elif item.get("role") == "user":
                talk.user(item["content"])
        case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" as called:
            name, server = item.get("name") or called.removesuffix("_call"), item.get("namespace")
            name = f"{server.rstrip('_')}__{name}" if isinstance(server, str) else name
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            # Rollouts do not contain its result, but what follows has read pages.
            trust = Trust.WEB if called == "web_search_call" else Trust.AGENT
            talk.call(item.get("call_id"), name, arguments, trust)
        case "function_call_output" | "custom_tool_call_output":
            talk.result(item.get("call_id"), _codex_output(item.get("output")))


def _codex_head(item: Record, talk: Conversation) -> None:
    named = str(item.get("id") or item.get("session_id") or "")
    if not talk.session:
        talk.session, talk.is_side = named, "subagent" in _dict(item.get("source"))
    talk.descends_from(named, item.get("forked_from_id"))


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

_SAID_ALONE = "a message by itself"
_ACKNOWLEDGED = "Got it. Thanks for the additional context!"  # what the program has the model say to a summary
_PLANNING = "exit_plan_mode"
_FILES = "--- Content from referenced files ---"


def is_gemini(record: Record) -> bool:
    """Return whether this is the head of a session of Gemini CLI."""
    return {"sessionId", "projectHash"} <= record.keys()


def gemini(record: Record, talk: Conversation) -> None:
    """Read a message, or the history that `$set` substitutes for the previous one.

    Until a message has come by itself, such a history is what was said so far. Later, new messages in it come from
    the program (a summary), so they get at most an agent's trust.
    """
    batch = _dicts(_dict(record.get("$set")).get("messages"))
    is_first = not talk.is_known(_SAID_ALONE)
    for one, following in zip(batch, [*batch[1:], {}], strict=False):
        is_summary = not is_first or text_of(following.get("content")).strip() == _ACKNOWLEDGED
        if not is_summary:
            _gemini_message(one, talk)
        elif not talk.is_known(str(one.get("id"))) and talk.is_new(f"$set {one.get('id')}"):
            talk.at(one.get("timestamp"))
            talk.user(_gemini_said(one), trust=Trust.AGENT)
    if not isinstance(record.get("$set"), dict) and record.get("type") in ("user", "gemini"):
        _gemini_message(record, talk)
        talk.is_new(_SAID_ALONE)


def _gemini_message(record: Record, talk: Conversation) -> None:
    """Read a message, and the calls and results that it has got."""
    talk.at(record.get("timestamp"))
    talk.places = GEMINI
    if "id" not in record or talk.is_new(str(record["id"])):
        if record.get("type") == "user":
            talk.user(_gemini_said(record))
        elif record.get("type") == "gemini":
            talk.agent(text_of(_gemini_said(record)))
    for call in _dicts(record.get("toolCalls")):
        key = f"{record.get('id')} {call.get('id')}"
        # Register the call again for each result, so that the result keeps the trust of its call.
        talk.call(call.get("id"), call.get("name"), call.get("args"), is_new=talk.is_new(key))
        if call.get("result") is not None and talk.is_new(f"{key} result"):
            result = _gemini_result(call["result"])
            told = reasons(GEMINI, result) if call.get("name") == _PLANNING else ()
            talk.result(call.get("id"), result, reasons=told)


def _gemini_said(record: Record) -> list[str]:
    """Return the texts of a message; of a user's, what was typed: `content` also has the files it refers to."""
    content = record.get("displayContent") or record.get("content")
    if isinstance(content, list):
        content = [one for one in content if not _dict(one).get("thought")]
    texts = texts_of(content)
    files = next((number for number, text in enumerate(texts) if _FILES in text), len(texts))
    return [*texts[:files], *(text.split(_FILES)[0] for text in texts[files : files + 1])]


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
    talk.places = OPENCODE
    for part in _dicts(record["parts"]):
        state, text = part.get("state"), part.get("text")
        is_added = part.get("synthetic") or part.get("ignored")
        if part.get("type") == "text" and isinstance(text, str) and not is_added:
            if info.get("role") == "user":
                talk.user(text)
            else:
                talk.agent(text)
        elif part.get("type") == "tool" and isinstance(state, dict):
            talk.call(part.get("callID"), part.get("tool"), state.get("input"))
            told = reasons(OPENCODE, state["error"]) if isinstance(state.get("error"), str) else ()
            if told or isinstance(state.get("output"), str):
                answer = _dict(state.get("metadata")).get("answers")
                talk.result(part.get("callID"), str(state.get("output") or ""), answer=answer, reasons=told)


# Cursor: ~/.cursor/projects/<project>/agent-transcripts/<session>.jsonl, {role, message: {content}}. Only what was
# typed has a time, and results of tools are not written.

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_STAMP = re.compile(
    r"<timestamp>\s*(?:[^\W\d]+,\s*)?([^\W\d]{3})[^\W\d]*\.? (\d{1,2}), (\d{4}),? (?:at )?"
    r"(\d{1,2}):(\d\d)(?::(\d\d))?\s?([AaPp])?[Mm]?\s*\((?:UTC|GMT)(?:([+-−])(\d{1,2})(?::?(\d\d))?)?\)\s*</timestamp>"
)


def is_cursor(record: Record) -> bool:
    """Return whether this is a message of Cursor."""
    return (
        record.get("role") in ("user", "assistant")
        and "type" not in record
        and isinstance(record.get("message"), dict)
    )


def cursor(record: Record, talk: Conversation) -> None:
    """Read a message; the agent's get the time of the prompt before."""
    if record.get("role") not in ("user", "assistant"):
        return
    content = _dict(record.get("message")).get("content")
    if not isinstance(content, str | list):
        raise RecordError(f"of the {record['role']} has no message with content")
    talk.places = CURSOR
    if record["role"] == "user":
        talk.prompted = next(filter(None, map(_cursor_time, texts_of(content))), talk.prompted)
        talk.at(talk.prompted)
        for part in _dicts(content):
            if part.get("type") == "tool_result":
                talk.result(part.get("tool_use_id"), text_of(part.get("content")))
        talk.user(content)
        return
    talk.at(talk.prompted)
    talk.agent(text_of(content))
    for part in _dicts(content):
        if part.get("type") == "tool_use":
            talk.call(part.get("id"), part.get("name"), part.get("input"))
            if "id" not in part:  # its result is not written, but what follows has read it
                web = is_web(str(part.get("name")), telling(part.get("input")))
                talk.read(Trust.WEB if web else Trust.TOOL)


def _cursor_time(text: str) -> str:
    """Return the time above a prompt, ISO 8601; "" if there is none."""
    found = _STAMP.search(text[:400])
    if found is None or found[1].lower() not in _MONTHS:
        return ""
    month, day, year, hour, minute, second, half, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign in ("-", "−") else 1)
    clock = int(hour) % 12 + 12 * (half in ("p", "P")) if half else int(hour)
    try:
        at = datetime(
            *(int(year), _MONTHS.index(month.lower()) + 1, int(day), clock, int(minute), int(second or 0)),
            tzinfo=timezone(offset),
        )
    except ValueError:
        return ""
    return at.astimezone(UTC).isoformat()


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
    talk.places = PLAIN
    if role == "user":
        talk.user(record.get("content"))
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
    "Cursor": (is_cursor, cursor),
    "OpenAI-style messages": (is_openai, openai),
}
"""For each format, a test for its records and its reader; the first test that matches decides."""


def format_of(record: Record) -> str | None:
    """Return the format of a record."""
    return next((name for name, (recognises, _) in READERS.items() if recognises(record)), None)
