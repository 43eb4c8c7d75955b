"""Claude Code: sessions in ~/.claude/projects/<project>/<session>.jsonl, one record a line.

`user` and `assistant` records hold a message as the API has it; everything else is bookkeeping. A subagent's records
(`isSidechain`) are a conversation of their own, in which the "user" is the agent that started it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from daemon.ingest.formats.cleaning import clean, spoken
from daemon.ingest.formats.tool_calls import OpenCalls, text_of
from daemon.ingest.formats.turn import RawTurn, Record, RecordError, moment
from state.trust import Trust

_SESSION_KEYS = {"sessionId", "leafUuid", "parentUuid", "messageId"}
_UNSAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def recognises(record: Record) -> bool:
    """Whether this is a line of Claude Code."""
    return isinstance(record.get("type"), str) and not _SESSION_KEYS.isdisjoint(record)


class ClaudeCode:
    """Reads one session file, record by record."""

    def __init__(self, memory: Record, name: str) -> None:
        self._name = name
        self._calls = OpenCalls(memory.get("calls"))

    def carry(self) -> Record:
        return {"calls": self._calls.carry()}

    def read(self, record: Record, line: int) -> Iterable[RawTurn]:
        del line
        kind = record.get("type")
        if kind not in ("user", "assistant") or any(record.get(key) is True for key in _UNSAID):
            return
        message = record.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), (str, list)):
            raise RecordError(f"of type '{kind}' has no message with content")
        side = record.get("isSidechain") is True
        session = str(record.get("sessionId") or self._name)
        if side:
            session += f"/{record.get('agentId') or 'subagent'}"
        turns = self._user_turns(record, message, side=side) if kind == "user" else self._agent_turns(message)
        for turn in turns:
            at = moment(record.get("timestamp"))
            yield replace(turn, at=at, session=session)

    def _user_turns(self, record: Record, message: Record, *, side: bool) -> Iterator[RawTurn]:
        content = message["content"]
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "tool_result":
                yield self._calls.close(part.get("tool_use_id"), text_of(part.get("content")))
        origin = record.get("origin")
        human = not side and (not isinstance(origin, dict) or origin.get("kind", "human") == "human")
        text = clean(spoken(text_of(content)))
        yield RawTurn(text, "user", Trust.OWNER) if human else RawTurn(text, "assistant", Trust.AGENT)

    def _agent_turns(self, message: Record) -> Iterator[RawTurn]:
        content = message["content"]
        yield RawTurn(clean(text_of(content)), "assistant", Trust.AGENT)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") in ("tool_use", "server_tool_use"):
                call = self._calls.open(part.get("id"), part.get("name"), part.get("input"))
                # What the server's tools (web_search, web_fetch) answer is not read: what follows has read pages.
                yield replace(call, trust=Trust.WEB) if part.get("type") == "server_tool_use" else call
