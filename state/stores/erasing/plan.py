"""Erasure: what forgetting makes of each kind of text: prose, a line, a document, a record, a program's JSON.

`WORDS` names the fields of dreamd's records that hold somebody's words. Nothing else in a record is changed, so that
dreamd's own words are not taken for the owner's; the byte search reveals a field that was left out. Every erasure may
be repeated: what is erased stays erased, and the rest stays as it is.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from state.document.document import Block, Document, Part, is_title, parse, render
from state.document.markdown import is_stamp
from state.document.pointer import parse_pointer
from state.document.sections import is_placeholder, placeholder_of
from state.document.seed import MARKER
from state.forgetting.cutting import Cut, Span, cut_out
from state.forgetting.known import Target, known_of, spans, without
from state.signals.curiosity import topic_of_question
from state.text.words import ends_as_question

# In `meta`: what is being forgotten, until it is done.
INTENTION = "forgetting"
WORDS = frozenset(
    "text figures keywords about old new content tombstones lifted_tombstones problems cites lines".split()
)
# Fields beside a text, erased as a whole; and JSON whose names are the owner's, too.
_BESIDE = frozenset({"context", "speaker", "session"})
_TABLES = frozenset({"metadata", "relations", "tags"})
# The texts in these fields are prose; all others are lines of MEMORY.md, which are erased as a whole.
_PROSE = frozenset({"evidence", "figures", "problems"})
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_MARKED_HEADING = "[forgotten]"


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased: the targets and their consequences.

    `crystals` are the ids of crystals that contain a target, `gone` those of which nothing remains; `keywords` are
    those of pointers that would lead nowhere.
    """

    targets: tuple[Target, ...]
    cut: Cut
    crystals: frozenset[str] = frozenset()
    keywords: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    def __or__(self, other: "Erasure") -> "Erasure":
        """Combine both erasures, using the other's cut."""
        targets = tuple(dict.fromkeys((*self.targets, *other.targets)))
        crystals, keywords = self.crystals | other.crystals, self.keywords | other.keywords
        return Erasure(targets, other.cut, crystals, keywords, self.gone | other.gone)

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
        """Return whether the text contains a target."""
        return bool(spans(text, self.targets))

    def asks(self, text: str) -> bool:
        """Return whether the text is a question that has only words of a target."""
        return ends_as_question(text) and known_of(self.targets).asks(topic_of_question(text))

    def prose(self, text: str) -> str:
        """Return the text without the targets' sentences (or words); "" if nothing remains."""
        return without(text, self.targets, self.cut)

    def line(self, text: str) -> str:
        """Return a line of MEMORY.md without the targets: "" as a whole, unless only words are erased."""
        if self.leads_nowhere(text) or self.asks(text) or (self.cut is Cut.SENTENCES and self.holds(text)):
            return ""
        return self.prose(text)

    def leads_nowhere(self, text: str) -> bool:
        """Return whether this is the line of a pointer that is erased."""
        parsed = parse_pointer(text) if self.keywords and "`" in text else None
        return parsed is not None and parsed[1] in self.keywords

    def json(self, text: str, *, has_fields: bool = False) -> str:
        """Return JSON without the targets in its values, and without names that contain one.

        With `has_fields`, names that look like dreamd's fields stay. Text that is not JSON is treated as prose.
        """
        try:
            value = json.loads(text) if text[:1] in ("{", "[") else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict | list):
            return self.prose(text)
        left = self._everything(value, has_fields=has_fields)
        return text if left == value else json.dumps(left, ensure_ascii=False)

    def _everything(self, value: Any, *, has_fields: bool = False) -> Any:  # noqa: ANN401 - JSON has no better type
        if isinstance(value, str):
            return self.json(value)
        if isinstance(value, list):
            walked = [(one, self._everything(one, has_fields=has_fields)) for one in value]
            return [new for old, new in walked if new == old or not _is_gone(old, new)]
        if isinstance(value, dict):
            return {
                name: self._everything(one, has_fields=has_fields)
                for name, one in value.items()
                if (has_fields and _FIELD.fullmatch(name)) or not self.holds(name)
            }
        return value

    def record(self, value: Any, name: str = "", *, lines: bool = False) -> Any:  # noqa: ANN401
        """Return a record, or one of its fields, without the targets; `lines`: its texts are lines of MEMORY.md."""
        lines = lines and name not in _PROSE
        if isinstance(value, str):
            return self._field(value, name, lines=lines)
        if name in _TABLES:
            return self._everything(value)
        if isinstance(value, list):
            return self._list(value, name, lines=lines)
        if not isinstance(value, dict):
            return value
        left = {key: self.record(one, key, lines=lines) for key, one in value.items()}
        if "guard" in left and _lost_text(left["operation"], value["operation"]):
            left["operation"] = None
        return left

    def _field(self, value: str, name: str, *, lines: bool) -> str:
        if name in _BESIDE and self.holds(value):
            return ""
        if name not in WORDS:
            return value
        if value[:1] in ("{", "["):
            return self.json(value)
        return self.line(value) if lines else self.prose(value)

    def _list(self, value: list[Any], name: str, *, lines: bool) -> list[Any]:
        walked = [(one, self.record(one, name, lines=lines)) for one in value]
        if walked and isinstance(walked[0][0], str):
            return list(dict.fromkeys(new for old, new in walked if new or not old))
        # A change keeps its lines, which show what was changed.
        return [new for old, new in walked if name == "lines" or not self._is_erased(name, old, new)]

    def _is_erased(self, name: str, old: Any, new: Any) -> bool:  # noqa: ANN401
        """Return whether nothing of this part of a record remains."""
        if name == "corrections":
            return old["crystal"] in self.gone
        return _lost_text(new, old)


def _lost_text(new: Any, old: Any) -> bool:  # noqa: ANN401
    """Return whether a part of a record has lost its text."""
    return isinstance(old, dict) and bool(old.get("text")) and not new["text"]


def _is_gone(old: Any, new: Any) -> bool:  # noqa: ANN401
    """Return whether a value of a list is gone; an inner list is a row, which goes if any of its values does."""
    return new in ("", None) or (isinstance(old, list) and len(old) != len(new))


def erased_document(text: str, erasure: Erasure) -> str:
    """Return the text without lines that hold a target, even one across lines, and without erased pointers."""
    while True:
        document = parse(text)
        found = spans(text, erasure.targets)
        parts, at = list[Part](), 0
        for part in document.parts:
            parts.append(_part(part, at, found, erasure, document.newline))
            at += len(part.raw)
        new = render(Document(tuple(parts), document.newline))
        if new == text:
            return text
        text = new


def _part(part: Part, at: int, found: tuple[Span, ...], erasure: Erasure, newline: str) -> Part:
    heading = part.heading
    if part.name is None and not is_title(heading) and _within(found, at, heading):
        heading = _heading(heading, erasure)
    at += len(part.heading)
    blocks, gone = list[Block](), False
    for block in part.blocks:
        here = _within(found, at, block.raw)
        at += len(block.raw)
        left = _block(block, here, erasure)
        if left is not None:
            # One of the two blank rows around a removed paragraph is removed as well.
            lonely = gone and not left.raw.strip() and (not blocks or not blocks[-1].raw.strip())
            blocks.extend([] if lonely else [left])
        gone = left is None or (gone and not left.raw.strip())
    if part.name is not None and any(block.content for block in part.blocks):
        has_content = any(block.content or is_placeholder(block.raw.strip() or "x") for block in blocks)
        if not has_content:
            row = Block(placeholder_of(part.name) + newline, content=False)
            blocks = [Block(newline, content=False), row, Block(newline, content=False)]
    return replace(part, heading=heading, blocks=tuple(blocks))


def _block(block: Block, here: tuple[Span, ...], erasure: Erasure) -> Block | None:
    """Return the rest of a block; None if nothing remains. dreamd's own texts (stamp, guides) stay."""
    if block.content and (erasure.leads_nowhere(block.text) or erasure.asks(block.text)):
        return None
    if not here or is_stamp(block.raw) or is_placeholder(block.raw) or MARKER in block.raw:
        return block
    if erasure.cut is Cut.SENTENCES or (block.content and parse_pointer(block.text)):
        return None
    left = cut_out(block.raw, here, Cut.WORDS)
    return replace(block, raw=left) if left else None


def _heading(heading: str, erasure: Erasure) -> str:
    """Return the owner's heading without the targets; it is never empty, because it separates two parts."""
    marks = heading[: len(heading) - len(heading.lstrip("# \t"))]
    ending = heading[len(heading.rstrip()) :]
    return (without(heading.rstrip(), erasure.targets, Cut.WORDS) or marks + _MARKED_HEADING) + ending


def _within(found: tuple[Span, ...], at: int, raw: str) -> tuple[Span, ...]:
    """Return the spans inside this piece, relative to its beginning `at`; only those with letters or digits."""
    end = at + len(raw)
    inside = [(max(start, at) - at, min(stop, end) - at) for start, stop in found if start < end and stop > at]
    return tuple((start, stop) for start, stop in inside if any(map(str.isalnum, raw[start:stop])))
