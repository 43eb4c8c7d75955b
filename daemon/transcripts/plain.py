"""Plain text: paragraphs, or, where most lines begin with a name and a colon, what each speaker says."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from daemon.transcripts.blocks import Block, Gathering, decoded
from daemon.transcripts.lines import Line
from daemon.transcripts.turn import Record
from state.crystal import Trust

_SPEECH = re.compile(r"(?:\[[^\]\n]{1,40}\]\s*)?([^\W\d][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s+(?=\S)")
_AGENTS = {"agent", "ai", "assistant", "bot", "chatgpt", "claude", "codex", "copilot", "gemini", "gpt", "model"}
_TOOLS = {"function", "output", "system", "tool"}


def trust_of(speaker: str) -> Trust:
    """Whose word it is: agents and tools by their usual names; people, and a document's own text, are the owner's."""
    name = speaker.casefold()
    if name in _AGENTS:
        return Trust.AGENT
    return Trust.TOOL if name in _TOOLS else Trust.OWNER


def is_conversation(lines: Sequence[str]) -> bool:
    """Whether at least six in ten lines begin with a name, and names come back: "Host: …" in a list does not."""
    texts = [line for line in lines if line.strip()]
    names = Counter(found[1] for line in texts if (found := _SPEECH.match(line[:120])))
    said = names.total()
    return said >= 4 and said >= 0.6 * len(texts) and said >= 2 * len(names)


def paragraphs(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """The paragraphs of a text. Raises DocumentError at a line that is no UTF-8."""
    del memory
    gathered = Gathering({})
    for line in lines:
        if text := decoded(file, line).strip():
            gathered.add(line, text)
        if not text or gathered.full:
            yield from gathered.take({})
    yield from gathered.take({})


def speeches(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """What each speaker says, up to the next name. Raises DocumentError at a line that is no UTF-8."""
    speaker = str(memory.get("speaker") or "")
    gathered = Gathering({"speaker": speaker})
    for line in lines:
        text = decoded(file, line).strip()
        if found := _SPEECH.match(text):
            yield from gathered.take({"speaker": speaker}, speaker=speaker)
            speaker = found[1]
            text = text[found.end() :]
        gathered.add(line, text)
        if gathered.full:
            yield from gathered.take({"speaker": speaker}, speaker=speaker)
    yield from gathered.take({"speaker": speaker}, speaker=speaker)
