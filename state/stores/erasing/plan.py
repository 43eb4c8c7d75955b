"""Erasure: what is to be forgotten, and what it makes of a text, a line and a MEMORY.md.

Every erasure may be repeated: what is erased stays erased, and the rest stays as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from state.document.document import Block, Document, Part, is_title, parse, render
from state.document.editing import without_blocks
from state.document.markdown import is_stamp
from state.document.sections import is_placeholder
from state.document.seed import MARKER
from state.forgetting.cutting import Cut, cut_out
from state.forgetting.folded import Span
from state.forgetting.known import Target, known_of, spans, without
from state.signals.curiosity import topic_of_question
from state.text.words import ends_as_question

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_LEVELS = 3  # a record may quote an answer, and that JSON


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased, and how much with it."""

    targets: tuple[Target, ...]
    cut: Cut

    @property
    def sought(self) -> tuple[Target, ...]:
        """Return the targets to be forgotten, without those to be kept."""
        return tuple(target for target in self.targets if not target.kept)

    @property
    def traceless(self) -> tuple[Target, ...]:
        """Return the targets that must vanish completely, because no text to be kept contains them."""
        kept = [" ".join(target.words) for target in self.targets if target.kept]
        return tuple(target for target in self.sought if not any(spans(text, (target,)) for text in kept))

    def holds(self, text: str) -> bool:
        """Return whether the text contains a target, as it is or read as JSON."""
        return any(spans(reading, self.targets) for reading in _readings(text))

    def asks(self, text: str) -> bool:
        """Return whether the text is a question that has only words of a target."""
        return ends_as_question(text) and known_of(self.targets).asks(topic_of_question(text))

    def prose(self, text: str) -> str:
        """Return the text without the targets' sentences (or words); "" if nothing remains."""
        return without(text, self.targets, self.cut)

    def line(self, text: str) -> str:
        """Return a line of MEMORY.md without the targets: "" as a whole, unless only words are erased."""
        is_gone = self.asks(text) or (self.cut is Cut.SENTENCES and self.holds(text))
        return "" if is_gone else self.prose(text)

    def document(self, text: str) -> str:
        """Return a MEMORY.md without lines that hold a target, even one across lines."""
        while True:
            parts, at, found, document = list[Part](), 0, spans(text, self.targets), parse(text)
            for part in document.parts:
                parts.append(self._part(part, at, found, document.newline))
                at += len(part.raw)
            if (new := render(Document(tuple(parts), document.newline))) == text:
                return text
            text = new

    def _part(self, part: Part, at: int, found: tuple[Span, ...], newline: str) -> Part:
        heading, blocks, gone = part.heading, list(part.blocks), list[int]()
        if part.name is None and not is_title(heading) and (here := _within(found, at, heading)):
            said = heading.rstrip()
            marks = said[: len(said) - len(said.lstrip("# \t"))]
            # It is never empty, because it separates two parts.
            heading = (cut_out(said, here, Cut.WORDS) or f"{marks}[forgotten]") + heading[len(said) :]
        at += len(part.heading)
        for place, block in enumerate(part.blocks):
            if (left := self._block(block, _within(found, at, block.raw))) is None:
                gone.append(place)
            else:
                blocks[place] = left
            at += len(block.raw)
        part = replace(part, heading=heading, blocks=tuple(blocks))
        return without_blocks(part, gone, newline) if gone else part

    def _block(self, block: Block, here: tuple[Span, ...]) -> Block | None:
        """Return the rest of a block; None if nothing remains. dreamd's own texts (stamp, guides) stay."""
        if block.content and self.asks(block.text):
            return None
        if not here or is_stamp(block.raw) or is_placeholder(block.raw) or MARKER in block.raw:
            return block
        left = cut_out(block.raw, here, Cut.WORDS) if self.cut is Cut.WORDS else ""
        return replace(block, raw=left) if left else None


def _readings(text: str) -> Iterator[str]:
    """Yield the text, and with the escapes of JSON decoded, also those of JSON within JSON."""
    yield text
    for _ in range(_LEVELS if text[:1] in ("{", "[") else 0):
        if "\\" in text:
            yield (text := _ESCAPE.sub(_unescaped, text))


def _unescaped(escape: re.Match[str]) -> str:
    code, sign = escape.groups()
    return chr(int(code, 16)) if code else sign if sign in '"\\/' else " "


def _within(found: tuple[Span, ...], at: int, raw: str) -> tuple[Span, ...]:
    """Return the spans inside this piece, relative to its beginning `at`; only those with letters or digits."""
    end = at + len(raw)
    inside = [(max(start, at) - at, min(stop, end) - at) for start, stop in found if start < end and stop > at]
    return tuple((start, stop) for start, stop in inside if any(map(str.isalnum, raw[start:stop])))
