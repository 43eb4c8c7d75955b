"""Eviction: fits MEMORY.md to its budget by turning fading lines into verified crystal pointers.

A line that leaves is first a crystal. Its pointer's keywords are run through the search: the crystal must be among
the first five results, else other words of the text are tried; a line whose crystal cannot be found stays. Every
dream verifies the pointers in the file again and mends those that no longer resolve. Pointers beyond twenty
retire: their crystals stay, found by search.

Each section has a share of the room that nothing takes from it, whatever the mood. What a section does not use is
there for the others: first for what lasts (The Phenotype, The Bond), then for pointers, then for Active Context.
The owner's text from before the first dream stays where it is, within a share of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from graphs.ports import Trial
from graphs.working_copy import MAX_OLD_LINES, WorkingCopy
from state.crystals.crystal import Crystal
from state.document.document import SectionName, render
from state.document.operations import Action, Fate, Operation, Refusal
from state.document.pointer import (
    FIRST,
    MAX_POINTERS,
    attempts,
    candidates,
    choose,
    parse_pointer,
    render_pointer,
    topic_of,
)
from state.document.seed import split_seed
from state.dream import CurrentLine, PointerLine, Snapshot
from state.search.query import content_words
from state.signals.hormones import section_weight
from state.text.words import terms

MAX_ROUNDS = 6
# Of the room for lines: what a section may count on as long as it has lines for it.
SHARES: Mapping[SectionName, float] = MappingProxyType(
    {
        SectionName.PHENOTYPE: 0.15,
        SectionName.BOND: 0.30,
        SectionName.NICHE: 0.05,
        SectionName.CONTEXT: 0.30,
        SectionName.POINTERS: 0.10,
        SectionName.GAPS: 0.05,
        SectionName.SKILLS: 0.05,
    }
)
POINTER_CHARACTERS = 80
# Nor are the owner's own text and pinned lines to push every other line out.
LEAST_SHARE = 0.25
# So much of the budget may the owner's text from before the first dream have for as long as it stands there.
OLD_TEXT_SHARE = 0.4
AROUND_A_LINE = 3  # its bullet, a blank, and the end of the row


class Turn(IntEnum):
    """Which lines leave first: those of a later turn only when all of an earlier one that may leave are gone."""

    WORK = 0  # above the section's share
    LASTING = 1  # likewise
    COUNTED = 2  # likewise; the next dream would write them again
    SHARES = 3  # what no section should lose: only when other lines cannot leave


_TURNS = {
    SectionName.CONTEXT: Turn.WORK,
    SectionName.GAPS: Turn.WORK,
    SectionName.PHENOTYPE: Turn.LASTING,
    SectionName.BOND: Turn.LASTING,
    SectionName.NICHE: Turn.COUNTED,
    SectionName.SKILLS: Turn.COUNTED,
}


@dataclass(frozen=True, slots=True)
class Room:
    """How long the file may be, how many characters of it are for lines, and how many of these may be pointers."""

    characters: int
    lines: int

    @property
    def pointers(self) -> int:
        """Characters that pointers may have, so that most of the file is lines."""
        return int(SHARES[SectionName.POINTERS] * self.lines)


class Archive(Protocol):
    """The port of this node: search as if some more crystals were stored."""

    def trial(self, crystals: Sequence[Crystal]) -> AbstractContextManager[Trial]: ...


def evict(snapshot: Snapshot, copy: WorkingCopy, operations: Sequence[Operation], archive: Archive) -> None:
    """Carry out the evictions of the synthesis, evict until it fits, then mend the pointers that stay in the file.

    Changes the copy; what cannot be verified stays, with a refusal.
    """
    wanted = {one.lines[0]: one.text for one in operations if one.action is Action.EVICT}
    leaving = [line for line in copy.lines if line.id in wanted]
    _point(snapshot, copy, leaving, archive, wanted)
    _point(snapshot, copy, spare_old_text(snapshot, copy), archive)
    room = room_for(snapshot, copy)
    for turn in Turn:
        _fit(snapshot, room, copy, archive, turn)
    _mend(snapshot, copy, archive)
    retire_spare_pointers(room, copy)
    while copy.characters > room.characters and copy.pointers:
        _retire(copy, _least_used(copy))
    if copy.characters > snapshot.budget:
        figures = (
            f"{copy.characters:,} characters, the budget is {snapshot.budget:,}; what is left is pinned or yours"
        )
        copy.refuse(Refusal("budget", "operation", figures))


def room_for(snapshot: Snapshot, copy: WorkingCopy) -> Room:
    """Return the budget, or more when headings, pins and the owner's text leave under a quarter of it."""
    fixed = copy.characters - sum(_length(line) for line in copy.lines if not line.pinned)
    lines = max(snapshot.budget - fixed, int(LEAST_SHARE * snapshot.budget))
    return Room(max(snapshot.budget, fixed + lines), lines)


def retire_spare_pointers(room: Room, copy: WorkingCopy) -> None:
    """At most 20 pointers, in a tenth of the room, stay in the file: the least used go, the oldest first."""
    while len(copy.pointers) > MAX_POINTERS or _pointed(copy) > room.pointers:
        _retire(copy, _least_used(copy))


def spare_old_text(snapshot: Snapshot, copy: WorkingCopy) -> list[CurrentLine]:
    """Return the lines that the text from before the first dream has above its share, from its end."""
    parts = split_seed(render(copy.document))
    excess = len(parts[0]) - OLD_TEXT_SHARE * snapshot.budget if parts else 0.0
    spare = list[CurrentLine]()
    for line in reversed(copy.old_text):
        if excess <= 0 or len(spare) + copy.old_left >= MAX_OLD_LINES:
            break
        if not line.pinned:
            spare.append(line)
            excess -= _length(line)
    return spare


def fading_order(snapshot: Snapshot, lines: Sequence[CurrentLine]) -> list[CurrentLine]:
    """Return the lines in the order in which they may leave; pinned lines and pointers are not among them.

    In the turn of their section; then by importance (within the hormones' weight of their section) plus youth, which
    rises from 0 for the oldest line to 1 for the newest; last what the owner wrote.
    """
    free = [line for line in lines if not line.pinned and line.section is not SectionName.POINTERS]
    moments = sorted({line.born_at for line in free})
    youth = {moment: at / len(moments) for at, moment in enumerate(moments)}

    def worth(line: CurrentLine) -> float:
        return round(line.importance * section_weight(snapshot.hormones, line.section.value) + youth[line.born_at], 4)

    def order(line: CurrentLine) -> tuple[bool, Turn, float, datetime, int, str]:
        by_hand = line.id in snapshot.handwritten
        return by_hand, _TURNS[line.section], worth(line), line.born_at, len(line.id), line.id

    return sorted(free, key=order)


def _fit(snapshot: Snapshot, room: Room, copy: WorkingCopy, archive: Archive, turn: Turn) -> None:
    """Move lines of this turn behind pointers until the file fits, or no more of them may leave."""
    for _ in range(MAX_ROUNDS):
        retire_spare_pointers(room, copy)
        if not _point(snapshot, copy, _enough(snapshot, room, copy, turn), archive):
            break
    retire_spare_pointers(room, copy)


def _enough(snapshot: Snapshot, room: Room, copy: WorkingCopy, turn: Turn) -> list[CurrentLine]:
    """So many lines of this turn, in their order, that the document fits when each has become a pointer."""
    excess = copy.characters - room.characters
    free = room.pointers - _pointed(copy)
    used = Counter[SectionName]()
    for line in copy.lines:
        used[line.section] += 0 if line.pinned else _length(line)
    stays = copy.unmovable | (set() if turn is Turn.SHARES else _established(room, copy.lines))
    chosen: list[CurrentLine] = []
    for line in fading_order(snapshot, copy.lines):
        if excess <= 0:
            break
        spare = used[line.section] > SHARES[line.section] * room.lines and _TURNS[line.section] is turn
        if not (spare or turn is Turn.SHARES) or line.id in stays:
            continue
        chosen.append(line)
        used[line.section] -= _length(line)
        excess -= len(line.text)
        # Once their room is taken, a new pointer pushes an old one out.
        if free >= POINTER_CHARACTERS and len(copy.pointers) + len(chosen) <= MAX_POINTERS:
            excess += POINTER_CHARACTERS
            free -= POINTER_CHARACTERS
    return chosen


def _established(room: Room, lines: Sequence[CurrentLine]) -> set[str]:
    """Return the lasting lines that fill their section's share: the weightiest, of equals the oldest.

    Newcomers take turns in the room beside it, so that many of them do not wash out who the user is.
    """
    left = {name: SHARES[name] * room.lines for name, turn in _TURNS.items() if turn is Turn.LASTING}
    kept = set()
    for line in sorted(lines, key=lambda line: (-round(line.importance, 2), line.born_at, len(line.id), line.id)):
        if not line.pinned and _length(line) <= left.get(line.section, 0):
            left[line.section] -= _length(line)
            kept.add(line.id)
    return kept


def _point(
    snapshot: Snapshot,
    copy: WorkingCopy,
    leaving: Sequence[CurrentLine],
    archive: Archive,
    topics: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Put verified pointers in the place of these lines; whether any could be moved."""
    if not leaving:
        return False
    with archive.trial([*copy.crystals, *(copy.crystal_of(line) for line in leaving)]) as trial:
        texts = [copy.crystal_of(line).text for line in leaving]
        ranked = [_ranked(text, trial) for text in texts]
        tried_first = (next(attempts(words, terms(text)), None) for words, text in zip(ranked, texts, strict=True))
        trial.expect([keywords for keywords in tried_first if keywords])
        moved = [
            _to_pointer(copy, line, topic_of(topics.get(line.id) or snapshot.redaction.of(line.text)), words, trial)
            for line, words in zip(leaving, ranked, strict=True)
        ]
    return any(moved)


def _to_pointer(copy: WorkingCopy, line: CurrentLine, topic: str, ranked: tuple[str, ...], trial: Trial) -> bool:
    """Put a verified pointer in the place of a line. Without one the line stays and the refusal says so."""
    crystal = copy.crystal_of(line)
    keywords = _keywords(ranked, crystal.text, crystal.id, trial)
    if keywords is None:
        figures = f"no words of {line.id} lead the search to it among {FIRST}; it stays"
        copy.keep(line, Refusal("pointer", "operation", figures))
        return False
    copy.remove(line, Fate.EVICTED, crystal)
    copy.point(PointerLine(topic, keywords, crystal.id, line.id))
    return True


def _keywords(ranked: tuple[str, ...], text: str, crystal: str, trial: Trial) -> str | None:
    return choose(ranked, lambda words: crystal in trial.first(words, FIRST), terms(text))


def _ranked(text: str, trial: Trial) -> tuple[str, ...]:
    # Of stop words, which stand in most of a large store, no pointer is made: they need no counting.
    return candidates(text, trial.frequency(content_words(text)))


def _mend(snapshot: Snapshot, copy: WorkingCopy, archive: Archive) -> None:
    """Verify the pointers that stay in the file; one that no longer resolves gets other words, or retires.

    Those that this dream made are verified already.
    """
    staying = [pointer for pointer in snapshot.pointers if pointer in copy.pointers]
    if not staying:
        return
    texts = {crystal.id: crystal.text for crystal in copy.pointed}
    with archive.trial(copy.crystals) as trial:
        for pointer in staying:
            if pointer.crystal in trial.first(pointer.keywords, FIRST):
                continue
            text = texts.get(pointer.crystal)
            keywords = _keywords(_ranked(text, trial), text, pointer.crystal, trial) if text else None
            _retire(copy, pointer)
            if keywords is not None:
                copy.point(PointerLine(pointer.topic, keywords, pointer.crystal, pointer.line, pointer.uses))


def _length(line: CurrentLine) -> int:
    return len(line.text) + AROUND_A_LINE


def _pointed(copy: WorkingCopy) -> int:
    return sum(len(render_pointer(pointer.topic, pointer.keywords)) + AROUND_A_LINE for pointer in copy.pointers)


def _least_used(copy: WorkingCopy) -> PointerLine:
    return min(copy.pointers, key=lambda pointer: pointer.uses)


def _retire(copy: WorkingCopy, pointer: PointerLine) -> None:
    line = next(
        (
            line
            for line in copy.lines
            if line.section is SectionName.POINTERS
            and (parsed := parse_pointer(line.text)) is not None
            and parsed[1] == pointer.keywords
        ),
        None,
    )
    copy.retire(pointer, line, render_pointer(pointer.topic, pointer.keywords))
