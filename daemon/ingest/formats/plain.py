"""Plain text: paragraphs, or speakers' turns where most lines begin with a name and a colon."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from daemon.ingest.formats.blocks import Block, Gathering, decoded
from daemon.ingest.formats.lines import Line
from daemon.ingest.formats.speakers import Floor
from daemon.ingest.formats.turn import Record

_SPEECH = re.compile(r"(?:\[[^\]\n]{1,40}\]\s*)?([^\W\d][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s+(?=\S)")


def is_conversation(lines: Sequence[str]) -> bool:
    """Whether at least six in ten lines begin with a name, and names come back: "Host: …" in a list does not."""
    texts = [line for line in lines if line.strip()]
    names = Counter(found[1] for line in texts if (found := _SPEECH.match(line[:120])))
    named = names.total()
    return named >= 4 and named >= 0.6 * len(texts) and named >= 2 * len(names)


def paragraphs(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """The paragraphs of a text. Raises DocumentError at a line that is no UTF-8."""
    floor = Floor.remembered(memory)
    gathered = Gathering(floor.memory())
    trust = floor.trust
    for line in lines:
        before, text = floor.memory(), decoded(file, line)
        if floor.heard(text) and floor.trust is not trust:
            yield from gathered.take(before, trust=trust)
        trust = floor.trust
        if text.strip():
            gathered.add(line, text.strip())
        if not text.strip() or gathered.full:
            yield from gathered.take(floor.memory(), trust=trust)
    yield from gathered.take(floor.memory(), trust=trust)


def speeches(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """What each speaker says, up to the next name. Raises DocumentError at a line that is no UTF-8."""
    speaker, floor = str(memory.get("speaker") or ""), Floor.remembered(memory)
    gathered = Gathering({"speaker": speaker, **floor.memory()})
    for line in lines:
        before, text = floor.memory(), decoded(file, line)
        found = _SPEECH.match(text) if floor.is_open(text) else None
        text = text.strip()
        if found:
            yield from gathered.take({"speaker": speaker, **before}, speaker=speaker, trust=floor.trust)
            speaker, text = found[1], text[found.end() :]
            floor.given_to(speaker)
        gathered.add(line, text)
        if gathered.full:
            yield from gathered.take({"speaker": speaker, **floor.memory()}, speaker=speaker, trust=floor.trust)
    yield from gathered.take({"speaker": speaker, **floor.memory()}, speaker=speaker, trust=floor.trust)
