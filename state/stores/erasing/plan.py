"""Erasure: what forgetting makes of each kind of text: prose, a line, a document, a dream's record, JSON.

Pure functions of an `Erasure`. Each may be applied again: what is erased stays so, everything else is as it was.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from state.crystals.crystal import Crystal
from state.document.document import Block, Document, Part, is_placeholder, is_title, parse, placeholder_of, render
from state.document.markdown import is_stamp
from state.document.operations import Birth, Death, Operation, Refusal
from state.document.pointer import parse_pointer
from state.document.seed import MARKER
from state.dream import Dream, PointerLine, StagedChange
from state.forgetting.cutting import Cut, Span, cut_out
from state.forgetting.known import Target, spans, without
from state.stores.erasing.own_words import is_field, is_own, is_reply_field

# In `meta`: what is being forgotten, until it is.
INTENTION = "forgetting"

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
# Of records in JSON: what these say may be the program's word, and not the owner's.
_CODES = frozenset(
    "id action section trust kind origin fate lifecycle cause type guard scope author model prompts lines cites"
    " digest state policy priority reason mood event created_at at first_at last_at finish".split()
)
# Of records in JSON: their names are the owner's as well.
_TABLES = frozenset({"metadata"})
_MARKED_HEADING = "[forgotten]"


_Names = Callable[[str], bool]


def _nobodys(name: str) -> bool:
    """Whether dreamd has named a field among the owner's names: never."""
    del name
    return False


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased: the targets, and what follows from them.

    `renamed` leads from the id of each crystal that changes (it is a trace of its text) to its new one, or to "" when
    nothing of it is left. `keywords` are those of the pointers that lead nowhere then.
    """

    targets: tuple[Target, ...]
    cut: Cut
    renamed: Mapping[str, str] = field(default_factory=dict)
    keywords: frozenset[str] = frozenset()

    @property
    def sought(self) -> tuple[Target, ...]:
        """The targets to be forgotten, without those to be kept."""
        return tuple(target for target in self.targets if not target.kept)

    @property
    def traceless(self) -> tuple[Target, ...]:
        """The targets of which nothing may be left: those that no kept one says as well."""
        kept = [" ".join(target.words) for target in self.targets if target.kept]
        return tuple(target for target in self.sought if not any(spans(text, (target,)) for text in kept))

    def holds(self, text: str) -> bool:
        """Whether the text holds a target."""
        return bool(spans(text, self.targets))

    def prose(self, text: str) -> str:
        """The text without the sentences (or words) of the targets; "" when nothing remains."""
        return self.ids(without(text, self.targets, self.cut))

    def line(self, text: str) -> str:
        """A line of MEMORY.md without the targets: dropped whole ("") unless words alone are erased."""
        if self.leads_nowhere(text):
            return ""
        if not self.holds(text):
            return self.ids(text)
        return self.ids(without(text, self.targets, self.cut)) if self.cut is Cut.WORDS else ""

    def ids(self, text: str) -> str:
        """The text with the new ids of crystals in the place of the old ones."""
        if not self.renamed or len(text) < 32:
            return text
        return _ID.sub(lambda match: self.renamed.get(match.group(), match.group()), text)

    def id(self, crystal: str) -> str:
        """The id that a crystal has now; "" when it is gone."""
        return self.renamed.get(crystal, crystal)

    def leads_nowhere(self, text: str) -> bool:
        """Whether this is the line of a pointer that is erased."""
        parsed = parse_pointer(text) if self.keywords and "`" in text else None
        return parsed is not None and parsed[1] in self.keywords

    def json(self, text: str) -> str:
        """JSON with the targets erased in its values; a text that is no JSON, as prose."""
        try:
            value = json.loads(text)
        except ValueError:
            return self.prose(text)
        if not isinstance(value, dict | list):
            return self.prose(text)
        left = self._walked(value, is_field)
        return text if left == value else json.dumps(left, ensure_ascii=False)

    def table(self, text: str) -> str:
        """JSON of which the names are the owner's too."""
        value = json.loads(text)
        left = self._walked(value, _nobodys)
        return text if left == value else json.dumps(left, ensure_ascii=False)

    def _walked(self, value: Any, own: _Names) -> Any:  # noqa: ANN401 - JSON has no better type
        """`own` says which names are not what the owner, or a model, called something."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            walked = ((one, self._row(one) if isinstance(one, list) else self._walked(one, own)) for one in value)
            return [new for old, new in walked if new not in ("", None) or new == old]
        if isinstance(value, dict):
            return {
                name: self._named(name, one, own) for name, one in value.items() if own(name) or not self.holds(name)
            }
        return value

    def _row(self, row: list[Any]) -> list[Any] | None:
        """A list in a list has its places, as a table's row does: one of which something is gone is gone."""
        left = [self._walked(one, _nobodys) for one in row]
        return None if any(new in ("", None) and new != old for old, new in zip(row, left, strict=True)) else left

    def _text(self, text: str) -> str:
        """A text in JSON, which may be JSON itself: then a model has said it, and its names are the model's."""
        try:
            value = json.loads(text) if text[:1] in ("{", "[") else None
        except ValueError:
            value = None
        if not isinstance(value, dict | list):
            return self.prose(text)
        left = self._walked(value, is_reply_field)
        return text if left == value else json.dumps(left, ensure_ascii=False)

    def _named(self, name: str, value: Any, own: _Names) -> Any:  # noqa: ANN401
        if own is _nobodys or name not in _CODES:
            return self._walked(value, _nobodys if name in _TABLES else own)
        if isinstance(value, str):
            return self.ids(value) if is_own(value) else self._walked(value, own)
        if isinstance(value, list):
            return [one for one in value if not isinstance(one, str) or is_own(one) or not self.holds(one)]
        return self._walked(value, own)


def erased_crystal(crystal: Crystal, erasure: Erasure) -> Crystal:
    """The crystal without the targets, with an empty text when nothing remains. Its source loses its digest."""
    new = replace(
        crystal,
        text=erasure.prose(crystal.text),
        context="" if erasure.holds(crystal.context) else crystal.context,
        speaker="" if erasure.holds(crystal.speaker) else crystal.speaker,
        session="" if erasure.holds(crystal.session) else crystal.session,
        parents=_ids(crystal.parents, erasure),
    )
    if new.text == crystal.text or new.source is None:
        return new
    return replace(new, source=replace(new.source, digest=""))


def erased_record(dream: Dream, erasure: Erasure) -> Dream:
    """The record of a dream without the targets."""
    line = erasure.line
    return replace(
        dream,
        before=erased_document(dream.before, erasure),
        after=erased_document(dream.after, erasure),
        merged=None if dream.merged is None else erased_document(dream.merged, erasure),
        edits=tuple(
            edit for edit in dream.edits if all(line(text) == text for text in (*edit.old, edit.new or "") if text)
        ),
        operations=tuple(left for one in dream.operations if (left := _operation(one, erasure))),
        refused=tuple(_refusal(one, erasure) for one in dream.refused),
        births=tuple(birth for one in dream.births if (birth := _birth(one, erasure)).text or not one.text),
        deaths=tuple(death for one in dream.deaths if (death := _death(one, erasure)).text or not one.text),
        crystals=tuple(crystal for one in dream.crystals if (crystal := erased_crystal(one, erasure)).text),
        dreamt=_ids(dream.dreamt, erasure),
        redreamt=_ids(dream.redreamt, erasure),
        pointers=_pointers(dream.pointers, erasure),
        retired_pointers=_pointers(dream.retired_pointers, erasure),
        tombstones=tuple(new for one in dream.tombstones if (new := line(one))),
        lifted_tombstones=tuple(new for one in dream.lifted_tombstones if (new := line(one))),
        problems=tuple(new for one in dream.problems if (new := erasure.prose(one))),
        corrections=tuple(one for one in dream.corrections if erasure.id(one.crystal)),
        # None of them leaves: a decision names one by its place.
        staged=tuple(erased_change(one, erasure) for one in dream.staged),
    )


def erased_change(change: StagedChange, erasure: Erasure) -> StagedChange:
    """The staged change without the targets; of its operation, and of its lines, the texts may be empty then."""
    evidence = [
        replace(piece, text=erasure.prose(piece.text), crystal=erasure.id(piece.crystal)) for piece in change.evidence
    ]
    return replace(
        change,
        operation=_operation(change.operation, erasure) or replace(change.operation, text=""),
        lines=tuple(replace(line, text=erasure.line(line.text)) for line in change.lines),
        evidence=tuple(piece for piece in evidence if piece.text),
        beside=tuple(replace(line, text=text) for line in change.beside if (text := erasure.line(line.text))),
        figures=erasure.prose(change.figures),
    )


def says_less(change: StagedChange, before: StagedChange) -> bool:
    """Whether an erased change can no longer be what it was: its text, a line, or all that it rests on is changed."""
    texts = [(one.operation.text, [line.text for line in one.lines], bool(one.evidence)) for one in (change, before)]
    return texts[0] != texts[1]


def erased_document(text: str, erasure: Erasure) -> str:
    """The text without the lines that hold a target, across lines too, and without the pointers that go."""
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
            # A paragraph leaves with one of the two blank rows around it.
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
    """The rest of a block; None when nothing remains. dreamd's own texts (stamp, guides) stay."""
    if block.content and erasure.leads_nowhere(block.text):
        return None
    if not here or is_stamp(block.raw) or is_placeholder(block.raw) or MARKER in block.raw:
        return block
    if erasure.cut is Cut.SENTENCES or (block.content and parse_pointer(block.text)):
        return None
    left = cut_out(block.raw, here, Cut.WORDS)
    return replace(block, raw=left) if left else None


def _heading(heading: str, erasure: Erasure) -> str:
    """The owner's heading without the targets; never empty, since it separates two parts."""
    marks = heading[: len(heading) - len(heading.lstrip("# \t"))]
    ending = heading[len(heading.rstrip()) :]
    return (without(heading.rstrip(), erasure.targets, Cut.WORDS) or marks + _MARKED_HEADING) + ending


def _within(found: tuple[Span, ...], at: int, raw: str) -> tuple[Span, ...]:
    """The places in this piece of the text that begins there, counted from its own beginning; only its words."""
    end = at + len(raw)
    inside = [(max(start, at) - at, min(stop, end) - at) for start, stop in found if start < end and stop > at]
    return tuple((start, stop) for start, stop in inside if any(map(str.isalnum, raw[start:stop])))


def _operation(operation: Operation, erasure: Erasure) -> Operation | None:
    text = erasure.line(operation.text)
    cites, lines = (
        tuple(one for one in ids if is_own(one) or not erasure.holds(one))
        for ids in (operation.cites, operation.lines)
    )
    return None if operation.text and not text else replace(operation, text=text, cites=cites, lines=lines)


def _refusal(refusal: Refusal, erasure: Erasure) -> Refusal:
    operation = _operation(refusal.operation, erasure) if refusal.operation else None
    return replace(refusal, figures=erasure.prose(refusal.figures), operation=operation)


def _birth(birth: Birth, erasure: Erasure) -> Birth:
    return replace(birth, text=erasure.line(birth.text), evidence=_ids(birth.evidence, erasure))


def _death(death: Death, erasure: Erasure) -> Death:
    return replace(death, text=erasure.line(death.text), crystal=erasure.id(death.crystal))


def _pointers(pointers: tuple[PointerLine, ...], erasure: Erasure) -> tuple[PointerLine, ...]:
    return tuple(
        replace(one, crystal=erasure.id(one.crystal))
        for one in pointers
        if one.keywords not in erasure.keywords
        and erasure.renamed.get(one.crystal) != ""
        and not erasure.holds(one.topic)
        and not erasure.holds(one.keywords)
    )


def _ids(ids: tuple[str, ...], erasure: Erasure) -> tuple[str, ...]:
    return tuple(dict.fromkeys(new for one in ids if (new := erasure.id(one))))
