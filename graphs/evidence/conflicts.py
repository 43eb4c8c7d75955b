"""Conflicts: standing lines that an input supersedes, and what settles each where the synthesis leaves both standing.

A model is told of them, and asked once more when its answer settles none; then code settles by who spoke last and by
trust: the line says what the input says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, Self

from state.crystals.contradiction import contradicts
from state.crystals.supersession import CERTAIN
from state.document.document import SectionName
from state.document.operations import Action, Operation
from state.dream import CurrentLine, Evidence, Kind, Snapshot
from state.injection.defang import spoken_trust, unquoted
from state.text.identity import SAME, UPDATE, Comparison, compare
from state.text.words import content_terms, jaccard, normalise
from state.trust import Trust

# Texts without vectors are compared when they share so much of their words.
LEAST_ALIKE = 0.2
_STATEMENTS = frozenset((Kind.NOTE, Kind.CRYSTAL))
_WRITTEN_BY_CODE = frozenset((SectionName.POINTERS, SectionName.SKILLS, SectionName.GAPS))


@dataclass(frozen=True, slots=True)
class Conflict:
    """A standing line, and the input that gives its subject another value."""

    line: CurrentLine
    piece: Evidence

    @property
    def is_as_trusted(self) -> bool:
        """Whether who said it is trusted as the line is, or more."""
        return spoken_trust(self.piece.text, self.piece.trust).rank >= self.line.trust.rank

    def __str__(self) -> str:
        return f"{self.piece.id} gives what {self.line.id} says another value: revise or merge {self.line.id}"


class Text(Protocol):
    """A line or an input."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...


_UNRELATED = Comparison(0.0, 0.0, apart=True)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How the lines and inputs of a snapshot are to each other."""

    cosines: Mapping[tuple[str, str], float]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Of the lines and inputs that are near in meaning."""
        return cls({(near.one, near.other): near.cosine for near in snapshot.near})

    def update(self, older: Text, newer: Text) -> float:
        """How sure it is that the newer one gives the older one's subject another value."""
        compared = self._compared(older, newer)
        return max(compared.update, self._opposed(compared, older, newer))

    def replaces(self, older: Text, newer: Text) -> float:
        """How sure it is that the newer one may take the older one's place: another value, or the same once more."""
        compared = self._compared(older, newer)
        return max(min(1.0, compared.update + compared.same), self._opposed(compared, older, newer))

    def told(self, older: Text, newer: Text) -> float:
        """How near the newer one is, if it tells of a change and is not about another subject; else 0."""
        compared = self._compared(older, newer)
        return self._cosine(older, newer) or 0.0 if compared.tells and not compared.apart else 0.0

    def same(self, one: Text, other: Text) -> bool:
        """Whether both say the same."""
        return self._compared(one, other).same >= SAME

    def _compared(self, older: Text, newer: Text) -> Comparison:
        cosine = self._cosine(older, newer)
        if cosine is None and jaccard(content_terms(older.text), content_terms(newer.text)) < LEAST_ALIKE:
            return _UNRELATED
        return compare(unquoted(older.text)[0], newer.text, cosine)

    def _cosine(self, one: Text, other: Text) -> float | None:
        return self.cosines.get((one.id, other.id), self.cosines.get((other.id, one.id)))

    @staticmethod
    def _opposed(compared: Comparison, older: Text, newer: Text) -> float:
        return UPDATE if not compared.apart and contradicts(older.text, newer.text) else 0.0


@lru_cache(maxsize=1)  # three nodes of a dream ask
def conflicts(snapshot: Snapshot) -> tuple[Conflict, ...]:
    """Every line that an input supersedes, with the latest of these inputs.

    By what the store knows, else by comparing both: then an input supersedes the line that it surest does, and others
    if that is all but certain. Pinned lines and those that code writes are none.
    """
    likeness = Likeness.of(snapshot)
    known = set(snapshot.superseded)
    lines = [line for line in snapshot.lines if not (line.pinned or line.section in _WRITTEN_BY_CODE)]
    found: dict[str, Conflict] = {}
    pieces = sorted(
        (piece for piece in snapshot.evidence if piece.kind in _STATEMENTS), key=lambda piece: (piece.at, piece.id)
    )
    for piece in pieces:
        sure = {line.id: likeness.update(line, piece) for line in lines if may_replace(piece, line)}
        first = max(sure.values(), default=0.0)
        for line in lines:
            sureness = sure.get(line.id, 0.0)
            if (line.id, piece.id) in known or (sureness >= UPDATE and (sureness == first or sureness >= CERTAIN)):
                found[line.id] = Conflict(line, piece)
    return tuple(found.values())


def may_replace(piece: Evidence, line: CurrentLine) -> bool:
    """Whether an input may take a line's place.

    What a page says stands beside what the agent knows, and what was said before the line was is no news.
    """
    # A note is dated to the second.
    if piece.at < (line.said_at or line.born_at).replace(microsecond=0):
        return False
    strange = spoken_trust(piece.text, piece.trust).rank < Trust.AGENT.rank
    return not strange or spoken_trust(line.text, line.trust).rank < Trust.AGENT.rank


def unsettled(found: Sequence[Conflict], operations: Sequence[Operation]) -> tuple[Conflict, ...]:
    """The conflicts whose line none of these operations touches."""
    touched = {line for operation in operations for line in operation.lines}
    return tuple(conflict for conflict in found if conflict.line.id not in touched)


def settled(
    snapshot: Snapshot, found: Sequence[Conflict], operations: Sequence[Operation], text: Mapping[str, str]
) -> tuple[Operation, ...]:
    """The operations, so changed and completed that no line of a conflict is left standing.

    An addition that says what the input says takes the line's place; a line that says it already absorbs the other
    one; else the line says what the input says, in its words: `text` gives them by its id.
    """
    likeness = Likeness.of(snapshot)
    result = list(operations)
    for conflict in unsettled(found, operations):
        line, piece = conflict.line, conflict.piece
        touched = {name for operation in result for name in operation.lines}
        said = next(
            (at for at, one in enumerate(result) if one.action is not Action.EVICT and _says(likeness, one, piece)),
            None,
        )
        other = next(
            (
                one
                for one in snapshot.lines
                if one.id not in {line.id, *touched}
                and not one.pinned
                and one.section not in _WRITTEN_BY_CODE
                and (normalise(one.text) == normalise(text[piece.id]) or likeness.same(one, piece))
            ),
            None,
        )
        if said is not None:
            result[said] = _joined(result[said], line)
        elif other is not None:
            names = (other.id, line.id)
            result.append(Operation(Action.MERGE, other.section, other.text, names, (piece.id, *names)))
        else:
            result.append(Operation(Action.REVISE, line.section, text[piece.id], (line.id,), (piece.id,)))
    return tuple(result)


def _says(likeness: Likeness, operation: Operation, piece: Evidence) -> bool:
    return piece.id in operation.cites and likeness.same(replace(piece, id="", text=operation.text), piece)


def _joined(operation: Operation, line: CurrentLine) -> Operation:
    """The operation in the place of one more line."""
    lines = (*operation.lines, line.id)
    action = Action.REVISE if len(lines) == 1 else Action.MERGE
    return replace(operation, action=action, lines=lines, section=line.section)
