"""Extractive synthesis: a dream without a model, deterministic, from importance, recency and hormones.

It writes nothing that was not said: a new line is the first sentences of one input. A note that changes a standing
line revises it, one that repeats a standing line is taken in silently, any other becomes a line of its section.
It answers with the same operations as a model and passes the same guards.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache

from graphs.evidence.conflicts import Likeness, may_replace
from state.document.document import SectionName
from state.document.operations import Action, Operation
from state.document.placement import names_in, placed
from state.dream import CurrentLine, Draft, Evidence, Kind, Snapshot
from state.injection.defang import defang, unquoted
from state.signals.curiosity import questions_in
from state.signals.hormones import section_weight
from state.text.identity import UPDATE
from state.text.languages.loader import table
from state.text.languages.tables import Sections
from state.text.words import content_terms, jaccard, normalise
from state.trust import Trust

AUTHOR = "extractive"
LINE_CHARACTERS = 240
REPEATS = 0.8
MAX_FROM_CRYSTALS = 12
LEAST_OF_CRYSTALS = 0.7
MAX_GAPS = 5
RECENCY_DAYS = 3.0
# An update that is not sure is taken for one of the line that it fits so many times better than any other.
LIKELY, CLEARER = 0.3, 2.0
# One that tells of a change is about a line so near to it, if no other line is nearly as near.
TOLD_OF, NEARER = 0.5, 0.1
# A line with so many commas names several things.
MANY_ITEMS = 2
_BETWEEN_ITEMS = re.compile(r"[,;](?=\s)|[、，；]")

_AUTOMATIC = "Hormonal event:"
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")


def extract(snapshot: Snapshot, pieces: Sequence[Evidence] | None = None) -> Draft:
    """Operations for these inputs (all of the snapshot's by default), the weightiest first.

    Of two inputs that contradict each other the newer one counts. Every note among them is named as consumed.
    """
    names = _names_of_the_user(snapshot)
    chosen = _chosen(snapshot, snapshot.evidence if pieces is None else pieces, names)
    likeness = Likeness.of(snapshot)
    made: list[tuple[Evidence, Operation]] = []
    written_by_owner = {normalise(line.text) for line in snapshot.old_text}
    for piece in chosen:
        if normalise(piece.text) in written_by_owner:
            continue
        made = [
            (other, operation)
            for other, operation in made
            if other.at >= piece.at or likeness.update(other, piece) < UPDATE
        ]
        taken = {line for _, operation in made for line in operation.lines}
        standing = [line for line in snapshot.lines if line.id not in taken]
        operation = _operation(piece, standing, made, likeness, names)
        if operation is not None:
            made.append((piece, operation))
    consumed = tuple(piece.id for piece in chosen if piece.kind is Kind.NOTE)
    return Draft(tuple(operation for _, operation in made), consumed, author=AUTHOR)


def section_for(piece: Evidence, names: Collection[str] = ()) -> SectionName:
    """The section that an input belongs to; `names` are those of the user, casefolded."""
    if piece.kind is Kind.GAP or _is_question(piece.text):
        return SectionName.GAPS
    if piece.kind is Kind.INSIGHT and piece.about == "skill":
        return SectionName.PHENOTYPE
    section = placed(piece.text, by_owner=piece.trust is Trust.OWNER, names=names)
    private = piece.about in {"preference", "relationship"} and section is SectionName.CONTEXT
    return SectionName.BOND if private else section


def _names_of_the_user(snapshot: Snapshot) -> frozenset[str]:
    """The names that the document or an input calls the user by; what a page says of a user is about another one."""
    lines = (line.text for line in snapshot.lines if line.section is SectionName.BOND)
    own = (piece.text for piece in snapshot.evidence if piece.trust.rank >= Trust.AGENT.rank)
    return names_in((*lines, *own))


@cache
def _answer() -> re.Pattern[str]:
    return re.compile(table(Sections).answer.pattern, re.IGNORECASE)


def condensed(text: str, limit: int = LINE_CHARACTERS) -> str:
    """The first sentences of a text that fit the limit, at least one, cut at a word when even that does not."""
    flat = " ".join(text.split())
    kept = ""
    for sentence in _SENTENCE.split(flat):
        if kept and len(kept) + 1 + len(sentence) > limit:
            break
        kept = f"{kept} {sentence}".strip()
    if len(kept) <= limit:
        return kept
    cut = kept[: limit - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(",;: ") + "…"


def weight(piece: Evidence, snapshot: Snapshot, names: Collection[str] = ()) -> float:
    """How much an input matters now: importance, recency (half at three days), and the hormones of its section."""
    age_days = max(0.0, (snapshot.now - piece.at).total_seconds() / 86_400)
    recency = 0.5 + 0.5 * math.pow(2.0, -age_days / RECENCY_DAYS)
    return piece.importance * recency * section_weight(snapshot.hormones, section_for(piece, names).value)


def _chosen(snapshot: Snapshot, pieces: Sequence[Evidence], names: Collection[str]) -> list[Evidence]:
    # Questions come last: most of them stand in a note.
    ranked = sorted(pieces, key=lambda piece: (piece.kind is Kind.GAP, -weight(piece, snapshot, names), piece.id))
    limits = {Kind.CRYSTAL: MAX_FROM_CRYSTALS, Kind.GAP: MAX_GAPS}
    chosen = []
    for piece in ranked:
        if piece.kind in {Kind.SKILL, Kind.FEED, Kind.WORKING, Kind.OLD_TEXT}:
            # Counted lines, written by `counted_operations`; what may be gone in an hour; what the owner wrote.
            continue
        if piece.kind in limits:
            if limits[piece.kind] == 0 or (piece.kind is Kind.CRYSTAL and not _stands_alone(piece)):
                continue
            limits[piece.kind] -= 1
        chosen.append(piece)
    return chosen


def _operation(
    piece: Evidence,
    standing: Sequence[CurrentLine],
    made: Sequence[tuple[Evidence, Operation]],
    likeness: "Likeness",
    names: Collection[str],
) -> Operation | None:
    """What this input asks for; None when a line or an earlier operation says it already, or it says nothing."""
    text = defang(condensed(piece.text))
    if _says_nothing(piece, text) or _said_by(made, standing, piece, likeness):
        return None
    line = _replaced(piece, text, standing, likeness)
    if line is None:
        return Operation(Action.ADD, section_for(piece, names), text, (), (piece.id,))
    untouchable = line.pinned or line.section in {SectionName.POINTERS, SectionName.SKILLS}
    return None if untouchable else Operation(Action.REVISE, line.section, text, (line.id,), (piece.id,))


def _replaced(
    piece: Evidence, text: str, standing: Sequence[CurrentLine], likeness: "Likeness"
) -> CurrentLine | None:
    """The line whose subject this input gives another value, or of which it says more; the surest of them.

    What a page says stands beside what the agent knows, not in its place. A question has no value, and no statement
    takes the place of an open one.
    """
    if section_for(piece) is SectionName.GAPS:
        return None
    candidates = sorted(
        (
            (likeness.replaces(line, piece), line)
            for line in standing
            if line.section is not SectionName.GAPS and may_replace(piece, line)
        ),
        key=lambda pair: -pair[0],
    )
    first, second = ([sureness for sureness, _ in candidates[:2]] + [0.0, 0.0])[:2]
    if first >= UPDATE or (first >= LIKELY and first >= CLEARER * second and not _lists(candidates[0][1].text)):
        return candidates[0][1]
    told = sorted(
        ((likeness.told(line, piece), line) for _, line in candidates),
        key=lambda pair: -pair[0],
    )
    nearest, next_one = ([cosine for cosine, _ in told[:2]] + [0.0, 0.0])[:2]
    if nearest >= TOLD_OF and nearest >= next_one + NEARER and not _lists(told[0][1].text):
        return told[0][1]
    return next((line for _, line in candidates if _says_more(text, line.text)), None)


def _lists(text: str) -> bool:
    """Whether a text names several things, of which one alone may have changed."""
    return len(_BETWEEN_ITEMS.findall(text)) >= MANY_ITEMS


def _says_more(text: str, old: str) -> bool:
    """Whether a text says all that an old line says, and a little more about it."""
    terms, known = content_terms(text), content_terms(old)
    return len(known) >= 3 and known < terms and len(terms) <= 2 * len(known)


def _says_nothing(piece: Evidence, text: str) -> bool:
    # An automatic note is a mood, not a memory: it coloured what was remembered with it.
    return piece.text.startswith(_AUTOMATIC) or (not content_terms(text) and len(text) < 3)


def _said_by(
    made: Sequence[tuple[Evidence, Operation]],
    standing: Sequence[CurrentLine],
    piece: Evidence,
    likeness: "Likeness",
) -> bool:
    """Whether an operation or a line repeats the input; or an operation, by a newer input, says otherwise."""
    key = normalise(piece.text)
    if piece.kind is Kind.GAP:
        texts = [*(operation.text for _, operation in made), *(line.text for line in standing)]
        words = content_terms(piece.text)
        return any(key in normalise(one) or jaccard(words, content_terms(one)) >= REPEATS for one in texts)
    if any(other.at >= piece.at and likeness.update(piece, other) >= UPDATE for other, _ in made):
        return True
    return any(likeness.same(other, piece) for other, _ in made) or any(
        key == normalise(line.text) or likeness.same(line, piece) for line in standing
    )


def _stands_alone(piece: Evidence) -> bool:
    """Whether a turn of a conversation is worth a line by itself, without the turns around it."""
    return piece.importance >= LEAST_OF_CRYSTALS and not _answer().match(piece.text)


def _is_question(text: str) -> bool:
    """Whether a text is there for the question in it, which opens it or is most of it."""
    questions = questions_in(text)
    if not questions:
        return False
    bare = text.strip()
    opens = bare.startswith(questions[0][:20]) or bare.casefold().startswith("open question")
    return opens or len(questions[0]) >= 0.6 * len(bare)


def counted_operations(snapshot: Snapshot) -> tuple[Operation, ...]:
    """The lines that code counts: The Niche from its feed, Emerging Skills from their occurrences.

    A counted line takes the place of the one that it counted before; it is known by the words before its colon
    or arrow.
    """
    operations = []
    for piece in snapshot.evidence:
        if piece.kind not in {Kind.SKILL, Kind.FEED}:
            continue
        section = SectionName.SKILLS if piece.kind is Kind.SKILL else SectionName.NICHE
        before = next(
            (
                line
                for line in snapshot.lines
                if line.section is section and _counted(line.text) == _counted(piece.text)
            ),
            None,
        )
        if before is None:
            operations.append(Operation(Action.ADD, section, piece.text, (), (piece.id,)))
        elif before.text != piece.text and not before.pinned:
            operations.append(Operation(Action.REVISE, section, piece.text, (before.id,), (piece.id,)))
    return tuple(operations)


def folded_in(snapshot: Snapshot, draft: Draft, kept: Collection[str] = (), least_importance: float = 0.7) -> Draft:
    """The draft, with what a model left unsaid: a note that it neither cited nor named gets its line.

    That is, an important one, and each whose id is in `kept`.
    """
    named = set(draft.consumed) | {cite for operation in draft.operations for cite in operation.cites}
    unsaid = [
        piece
        for piece in snapshot.evidence
        if piece.kind is Kind.NOTE and piece.id not in named
        if piece.importance >= least_importance or piece.id in kept
    ]
    if not unsaid:
        return draft
    taken = {line for operation in draft.operations for line in operation.lines}
    left = replace(snapshot, lines=tuple(line for line in snapshot.lines if line.id not in taken))
    more = extract(left, unsaid)
    said = [content_terms(operation.text) for operation in draft.operations]
    new = tuple(
        operation
        for operation in more.operations
        if all(jaccard(content_terms(operation.text), other) < REPEATS for other in said)
    )
    return replace(draft, operations=draft.operations + new, consumed=draft.consumed + more.consumed)


def _counted(text: str) -> str:
    return re.split(r"→|:", unquoted(text)[0], maxsplit=1)[0].strip().casefold()
