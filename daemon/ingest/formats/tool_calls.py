"""Tool calls: one line for each call in a transcript, and the trust of its result."""

import json
from collections.abc import Mapping, Sequence

from daemon.ingest.formats.cleaning import capped, clean, one_line, without_passages
from daemon.ingest.formats.own_answers import is_own_answer, is_own_call
from daemon.ingest.formats.turn import RawTurn, Record
from state.trust import Trust, is_web

RESULT_CHARACTERS = 4_000
_CALL_CHARACTERS = 160
_OPEN_CALLS = 256
_OWN = ""  # in place of the tool's name
_NOTHING = RawTurn("", "assistant", Trust.AGENT, call=True)

_TELLING_ARGUMENTS = ("command", "cmd", "file_path", "path", "url", "query", "pattern", "prompt", "description")


class OpenCalls:
    """Calls whose results have not been read yet: id -> name and trust of the result. The oldest beyond 256 go.

    What cannot be meant of those that are `carried` over, by a watermark that was damaged, is left out.
    """

    def __init__(self, carried: object = None) -> None:
        self._calls: dict[str, tuple[str, Trust]] = {}
        for call, known in carried.items() if isinstance(carried, dict) else ():
            if isinstance(known, list) and len(known) == 2 and known[1] in set(Trust):
                self._calls[str(call)] = (str(known[0]), Trust(known[1]))

    def open(self, call: object, name: object, arguments: object) -> RawTurn:
        """Remember a call; return the line that stands for it: the tool's name and its telling argument.

        Of a call of dreamd's own nothing is said, neither here nor of what it gave.
        """
        tool = one_line(clean(name), 80) if isinstance(name, str) and name.strip() else "tool"
        argument = telling(arguments)
        if is_own_call(tool, arguments):
            tool = _OWN
        if isinstance(call, str):
            self._calls[call] = (tool, Trust.WEB if is_web(tool, argument) else Trust.TOOL)
            while len(self._calls) > _OPEN_CALLS:
                del self._calls[next(iter(self._calls))]
        if tool == _OWN:
            return _NOTHING
        line = f"{tool}: {one_line(argument, _CALL_CHARACTERS)}" if argument else tool
        return RawTurn(line, "assistant", Trust.AGENT, call=True)

    def close(self, call: object, result: str, name: str = "tool") -> RawTurn:
        """Return what a call gave, capped, under the tool's name; `name` is that of an unknown call's tool."""
        tool, trust = self._calls.pop(str(call), (name, Trust.WEB if is_web(name, "") else Trust.TOOL))
        if tool == _OWN or is_own_call(tool, None):
            return _NOTHING
        text = clean(without_passages(result))
        return _NOTHING if is_own_answer(text) else RawTurn(capped(text, RESULT_CHARACTERS), tool, trust)

    def carry(self) -> Record:
        """Return what must be known of the open calls to go on later."""
        return {call: [name, trust.value] for call, (name, trust) in self._calls.items()}


def telling(arguments: object) -> str:
    """Return the argument that tells what a call does: a command, a path, a query, else the first text."""
    if isinstance(arguments, str):
        return telling_json(arguments)
    if isinstance(arguments, Sequence):
        return clean(" ".join(part for part in arguments if isinstance(part, str)))
    if not isinstance(arguments, Mapping):
        return ""
    named = [arguments[key] for key in _TELLING_ARGUMENTS if key in arguments]
    for value in (*named, *arguments.values()):
        if isinstance(value, str) and value.strip():
            return clean(value)
        if isinstance(value, list) and any(isinstance(part, str) for part in value):
            return telling(value)
    return ""


def telling_json(arguments: str) -> str:
    """Return the same of arguments that are JSON in a string, as OpenAI's formats have them, or plain text."""
    if arguments.lstrip().startswith("{"):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return telling(value)
    return clean(arguments)


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list, one paragraph each.

    Pictures, files, thinking and parts of unknown kinds are left out.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [
        part if isinstance(part, str) else part.get("text")
        for part in content
        if isinstance(part, str)
        or (isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"))
    ]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
