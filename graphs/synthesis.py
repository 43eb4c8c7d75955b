"""Synthesis: the request to the model for an update of MEMORY.md, and the draft read from its answer.

A model that can only write Markdown may answer with the whole document: it is compared with the old one line by
line and becomes additions and evictions, so that a line that it leaves out is never a loss.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from graphs.ports import Request
from prompts import Prompt, load, render
from prompts.replies import SYNTHESIS_SCHEMA, read_synthesis
from state.document import document
from state.document.document import Document, SectionName
from state.document.merge import working
from state.document.operations import Action, Operation
from state.document.pointer import parse_pointer, topic_of
from state.dream import CurrentLine, Draft, Evidence, Kind, Snapshot
from state.secrets.policy import Redaction
from state.signals.hormones import attention, mood
from state.text.words import content_terms, normalise

SUPPORTED = 0.33
MAX_WRITTEN = 200
MAX_REMOVED_SHOWN = 30
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_WRITTEN_BY_CODE = {SectionName.POINTERS, SectionName.SKILLS}
_NAMES = {
    Kind.NOTE: "note",
    Kind.CRYSTAL: "crystal",
    Kind.INSIGHT: "insight",
    Kind.GAP: "open question",
    Kind.SKILL: "counted pattern",
    Kind.FEED: "economics",
    Kind.OLD_TEXT: "text from before the first dream",
    Kind.WORKING: "on the agent's mind in a session that is open",
}


def prompt() -> Prompt:
    """The prompt of the synthesis."""
    return load("synthesize")


def request(snapshot: Snapshot, feedback: Sequence[str]) -> Request:
    """What the model is asked: the standing lines and the inputs, each with its id, as data."""
    old, redaction = working(snapshot.text), snapshot.redaction
    sections = [
        (name.value, [_shown(line, redaction) for line in snapshot.lines if line.section is name])
        for name in SectionName
    ]
    shown = [
        piece
        for piece in snapshot.evidence
        if piece.kind not in {Kind.SKILL, Kind.FEED} and piece.id not in snapshot.unasked
    ]
    system, user = render(
        prompt(),
        {
            "now": snapshot.now.strftime("%Y-%m-%d %H:%M UTC"),
            "mood": mood(snapshot.hormones),
            "attention": f"Attention: {attention(snapshot.hormones)}.",
            "budget": snapshot.budget,
            "used": len(document.render(old)),
            "sections": sections,
            "genome": [redaction.of(text) for text in snapshot.genome],
            "evidence": [
                {"id": piece.id, "label": label(piece, snapshot.now), "text": redaction.of(piece.text)}
                for piece in shown
            ],
            "removed": [redaction.of(text) for text in snapshot.tombstones[-MAX_REMOVED_SHOWN:]],
            "feedback": [redaction.of(text) for text in feedback],
        },
    )
    return Request(system, user, SYNTHESIS_SCHEMA, "memory_update")


def label(piece: Evidence, now: datetime) -> str:
    """Introduce an input: kind, importance, who said it, how long ago, and its marks."""
    hours = max(0.0, (now - piece.at).total_seconds() / 3600)
    age = f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"
    marks = [f"replaces {', '.join(piece.replaces)}"] if piece.replaces else []
    marks += [f"heard {piece.heard}"] if piece.heard else []
    said = f"{_NAMES[piece.kind]}, importance {piece.importance:.1f}, from {piece.trust.value}, {age}"
    return ", ".join((said, *marks))


def read(answer: str, snapshot: Snapshot, author: str, *, complete: bool) -> Draft:
    """The draft that an answer means. Raises ReplyError when nothing in it can be read."""
    reply = read_synthesis(answer, {line.id: line.section for line in snapshot.lines})
    complete = complete and reply.complete
    if reply.document is None:
        said = tuple(_redacted(snapshot, one) for one in reply.operations)
        return Draft(said, reply.consumed, reply.refused, author, complete)
    return Draft(
        compared(snapshot, reply.document),
        author=author,
        complete=complete,
        whole=True,
        missing=tuple(name for name in reply.document.missing if name not in _WRITTEN_BY_CODE),
        doubled=reply.document.doubled,
    )


def compared(snapshot: Snapshot, new: Document) -> tuple[Operation, ...]:
    """Return the operations that turn the standing lines into this document.

    A line that stands in both is kept, a further new line is an addition, a further old line an eviction: which new
    line takes the place of which old one, a document does not say. New text cites the inputs that it shares most
    terms with; when none supports it, it cites nothing, and the guards refuse it.
    """
    # As the model was shown them: a line whose secret it never saw is the same line.
    old = [_seen(line, snapshot.redaction) for line in snapshot.lines if line.section not in _WRITTEN_BY_CODE]
    written = [
        (name, snapshot.redaction.of(block.text)) for name, block in new.lines() if name not in _WRITTEN_BY_CODE
    ]
    pointers = [block.text for name, block in new.lines() if name is SectionName.POINTERS]
    kept = {normalise(line.text) for line in old} & {normalise(text) for _, text in written}
    old = [line for line in old if normalise(line.text) not in kept]
    written = [(name, text) for name, text in written if normalise(text) not in kept][:MAX_WRITTEN]
    operations = [Operation(Action.ADD, name, text, (), _support(snapshot, text)) for name, text in written]
    here = {name for name in SectionName if new.section(name)}
    operations += [
        Operation(Action.EVICT, line.section, _topic(line, pointers), (line.id,), (line.id,))
        for line in old
        if line.section in here and not line.pinned
    ]
    known = {line.text for line in snapshot.lines if line.section is SectionName.POINTERS}
    operations += [
        Operation(Action.ADD, SectionName.POINTERS, text)
        for text in pointers
        if text not in known and parse_pointer(text) is not None
    ]
    return tuple(operations)


def _redacted(snapshot: Snapshot, operation: Operation) -> Operation:
    """The operation without secrets; what its lines and inputs say in the clear, as they were shown, is none."""
    named = {*operation.cites, *operation.lines}
    texts = [piece.text for piece in snapshot.evidence if piece.id in named]
    texts += [line.text for line in snapshot.lines if line.id in named]
    known = [snapshot.redaction.of(text) for text in texts]
    return replace(operation, text=snapshot.redaction.of(operation.text, known))


def _shown(line: CurrentLine, redaction: Redaction) -> dict[str, object]:
    return {"id": line.id, "pinned": line.pinned, "text": redaction.of(line.text)}


def _seen(line: CurrentLine, redaction: Redaction) -> CurrentLine:
    return replace(line, text=redaction.of(line.text))


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[str]:
    return content_terms(_THOUSANDS.sub("", text))


def _support(snapshot: Snapshot, text: str) -> tuple[str, ...]:
    """The inputs that say a third of the terms of a text, those that share most first; three at most."""
    terms = _terms(text)
    shares = sorted((_share(terms, piece.text), piece.id) for piece in snapshot.evidence)
    return tuple(name for share, name in reversed(shares[-3:]) if share >= SUPPORTED)


def _share(wanted: Collection[str], text: str) -> float:
    known = _terms(text)
    return sum(term in known for term in wanted) / max(1, len(wanted))


def _topic(line: CurrentLine, pointers: Sequence[str]) -> str:
    """The topic that the answer's own pointers give this line, else its first words."""
    terms = content_terms(line.text)
    for text in pointers:
        parsed = parse_pointer(text)
        if parsed and len(content_terms(" ".join(parsed)) & terms) >= 2:
            return parsed[0]
    return topic_of(line.text)
