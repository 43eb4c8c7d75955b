"""Synthesis: the request to the model for an update of MEMORY.md, and the draft read from its answer.

A model that can only write Markdown may answer with the whole document: it is compared with the old one line by
line and becomes the same operations, so that a line that it leaves out is an eviction, never a loss.
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
from state.text.words import content_terms, jaccard, normalise

SIMILAR = 0.5
SUPPORTED = 0.33
MERGED = 0.6
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
    """Load the prompt of the synthesis."""
    return load("synthesize")


def request(snapshot: Snapshot, feedback: Sequence[str]) -> Request:
    """Ask the model: the standing lines and the inputs, each with its id, as data."""
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
    """Read the draft that an answer means. Raise ReplyError when nothing in it can be read."""
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

    A line that stands in both is kept. Of what is left over, a new line that says most of several old ones is a
    merge, the most similar pairs are revisions, further new lines are additions, further old lines evictions. New
    text cites the inputs that it shares most terms with; when none supports it, it cites nothing, and the guards
    refuse it.
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
    operations = []
    for name, text in tuple(written):
        parts = [line for line in old if not line.pinned and _says(text, line.text)]
        if len(parts) >= 2:
            old = [line for line in old if line not in parts]
            written.remove((name, text))
            ids = tuple(line.id for line in parts)
            cites = (*ids, *_beside(old, parts, text), *_support(snapshot, text, parts))
            operations.append(Operation(Action.MERGE, name, text, ids, cites))
    for line, name, text in _pairs(old, written):
        old.remove(line)
        written.remove((name, text))
        operations.append(Operation(Action.REVISE, line.section, text, (line.id,), _support(snapshot, text, [line])))
    operations += [Operation(Action.ADD, name, text, (), _support(snapshot, text, [])) for name, text in written]
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
    """Redact an operation; what its lines and inputs say in the clear, as shown, is no secret."""
    named = {*operation.cites, *operation.lines}
    texts = [piece.text for piece in snapshot.evidence if piece.id in named]
    texts += [line.text for line in snapshot.lines if line.id in named]
    known = [snapshot.redaction.of(text) for text in texts]
    return replace(operation, text=snapshot.redaction.of(operation.text, known))


def _shown(line: CurrentLine, redaction: Redaction) -> dict[str, object]:
    return {"id": line.id, "pinned": line.pinned, "text": redaction.of(line.text)}


def _seen(line: CurrentLine, redaction: Redaction) -> CurrentLine:
    return replace(line, text=redaction.of(line.text))


def _says(text: str, line: str) -> bool:
    """Whether a text holds most of what a line says."""
    said = _terms(line)
    return bool(said) and len(said & _terms(text)) >= MERGED * len(said)


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[str]:
    return content_terms(_THOUSANDS.sub("", text))


def _pairs(
    old: Sequence[CurrentLine], written: Sequence[tuple[SectionName, str]]
) -> list[tuple[CurrentLine, SectionName, str]]:
    """Old and new lines that are versions of each other, the most similar first, each used once."""
    scored = sorted(
        (
            (jaccard(_terms(line.text), _terms(text)) + 0.1 * (line.section is name), line.id, at)
            for line in old
            for at, (name, text) in enumerate(written)
        ),
        key=lambda row: (-row[0], row[1], row[2]),
    )
    by_id = {line.id: line for line in old}
    used_lines, used_texts, pairs = set[str](), set[int](), []
    for similarity, line_id, at in scored:
        if similarity < SIMILAR:
            break
        if line_id in used_lines or at in used_texts:
            continue
        used_lines.add(line_id)
        used_texts.add(at)
        pairs.append((by_id[line_id], *written[at]))
    return pairs


def _beside(old: Sequence[CurrentLine], parts: Sequence[CurrentLine], text: str) -> tuple[str, ...]:
    """Return the lines left over that say what is in a merged line and in none of its parts."""
    news = _terms(text).difference(*(_terms(line.text) for line in parts))
    return tuple(line.id for line in old if news & _terms(line.text))[:3]


def _support(snapshot: Snapshot, text: str, old: Sequence[CurrentLine]) -> tuple[str, ...]:
    """Return the inputs that say a third of a text's terms, or of what it has beyond its old lines.

    Of a text that only leaves out: what it leaves out. Of equals, those that share most with all of the text. When
    none does, those that say a third of all of the text.
    """
    terms = _terms(text)
    before = frozenset().union(*(_terms(line.text) for line in old))
    for wanted in (terms - before or before - terms, terms):
        shares = [(_share(wanted, piece.text), _share(terms, piece.text), piece.id) for piece in snapshot.evidence]
        best = sorted(found for found in shares if found[0] >= SUPPORTED)[-3:]
        if best:
            break
    return tuple(name for _, _, name in reversed(best))


def _share(wanted: Collection[str], text: str) -> float:
    known = _terms(text)
    return sum(term in known for term in wanted) / max(1, len(wanted))


def _topic(line: CurrentLine, pointers: Sequence[str]) -> str:
    """Return the topic that the answer's own pointers give this line, else its first words."""
    terms = content_terms(line.text)
    for text in pointers:
        parsed = parse_pointer(text)
        if parsed and len(content_terms(" ".join(parsed)) & terms) >= 2:
            return parsed[0]
    return topic_of(line.text)
