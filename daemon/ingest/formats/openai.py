"""OpenAI messages: {role, content} as a JSON array, as {"messages": [...]}, or one a line."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.tool_calls import OpenCalls, text_of
from daemon.ingest.formats.turn import RawTurn, Record, RecordError, moment
from state.trust import Trust

_ROLES = ("assistant", "developer", "function", "system", "tool", "user")
_TIMES = ("timestamp", "created_at", "create_time", "created")


def recognises(record: Record) -> bool:
    """Whether this is a message, or an object with a list of messages."""
    if isinstance(messages := record.get("messages"), list):
        return any(isinstance(message, dict) and recognises(message) for message in messages[:20])
    return record.get("role") in _ROLES and ("content" in record or "tool_calls" in record)


class OpenAI:
    """Reads messages, or objects with messages, each of which is a session of its own."""

    def __init__(self, memory: Record, name: str) -> None:
        self._name = name
        self._calls = OpenCalls(memory.get("calls"))

    def carry(self) -> Record:
        return {"calls": self._calls.carry()}

    def read(self, record: Record, line: int) -> Iterable[RawTurn]:
        for message, session in self.messages(record, f"{self._name}/{line}"):
            yield from self.message(message, session)

    def messages(self, record: Record, unnamed: str) -> Iterator[tuple[Record, str]]:
        """The messages of a record, each with its session; `unnamed` for a list of messages without a name."""
        messages = record.get("messages")
        if not isinstance(messages, list):
            yield record, self._name
            return
        named = record.get("id") or record.get("session_id") or record.get("conversation_id")
        for message in messages:
            if isinstance(message, dict):
                yield message, str(named or unnamed)

    def message(self, message: Record, session: str) -> Iterator[RawTurn]:
        """What was said in one message. Raises RecordError for an unknown role."""
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            raise RecordError(f"has the role {str(role)[:40]!r}; known are {', '.join(_ROLES)}")
        at = next(filter(None, (moment(message.get(key)) for key in _TIMES)), None)
        for turn in self._turns(role, message, text_of(content)):
            yield replace(turn, at=at, session=session)

    def _turns(self, role: object, message: Record, text: str) -> Iterator[RawTurn]:
        match role:
            case "user":
                yield RawTurn(clean(text), "user", Trust.OWNER)
            case "assistant":
                yield RawTurn(clean(text), "assistant", Trust.AGENT)
                calls = message.get("tool_calls")
                for call in calls if isinstance(calls, list) else ():
                    function = call.get("function") if isinstance(call, dict) else None
                    if isinstance(function, dict):
                        yield self._calls.open(call.get("id"), function.get("name"), function.get("arguments"))
            case "tool" | "function":
                name = message.get("name")
                tool = name if isinstance(name, str) and name else "tool"
                yield self._calls.close(message.get("tool_call_id"), text, tool)
