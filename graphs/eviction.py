"""Eviction: fits MEMORY.md to its budget by turning fading lines into verified crystal pointers.

A line that leaves is first a crystal. Its pointer's keywords are run through the search: the crystal must be among
the first five results, else other words of the text are tried; a line whose crystal cannot be found stays. Every
dream verifies the pointers in the file again and mends those that no longer resolve. Pointers beyond twenty
retire: their crystals stay, found by search.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from graphs.ports import Trial
from graphs.voices import strangers
from graphs.working_copy import MAX_OLD_LINES, WorkingCopy
from state.attribution.sources import foreign
from state.crystals.crystal import Crystal
from state.document.document import SectionName
from state.document.operations import Action, Fate, Operation, Refusal
from state.document.pointer import (
    FIRST,
    MAX_POINTERS,
    TOPIC_CHARACTERS,
    candidates,
    choose,
    parse_pointer,
    render_pointer,
    topic_of,
)
from state.dream import CurrentLine, PointerLine, Snapshot
from state.injection.defang import is_quoted, quote, reads_as_instruction, spoken_trust, unquoted
from state.search.query import content_words
from state.signals.hormones import section_weight
from state.text.words import content_terms
from state.trust import Trust

MAX_ROUNDS = 6
# Pointers are to leave most of the file to lines.
POINTERS_SHARE = 0.25
POINTER_CHARACTERS = 80
# Nor is the owner's own text to push every line out.
LEAST_SHARE = 0.25
COUNTED = {SectionName.NICHE, SectionName.SKILLS}


@dataclass(frozen=True, slots=True)
class Room:
    """How long the file may be, and how many characters of it may be pointers."""

    characters: int
    pointers: int


class Archive(Protocol):
    """The port of this node: search as if some more crystals were stored."""

    def trial(self, crystals: Sequence[Crystal]) -> AbstractContextManager[Trial]: ...


def evict(snapshot: Snapshot, copy: WorkingCopy, operations: Sequence[Operation], archive: Archive) -> None:
    """Carry out the evictions of the synthesis, evict until it fits, then mend the pointers that stay in the file.

    Changes the copy; what cannot be verified stays, with a refusal.
    """
    room = room_for(snapshot, copy)
    wanted = {one.lines[0]: one.text for one in operations if one.action is Action.EVICT}
    leaving = [line for line in copy.lines if line.id in wanted]
    if leaving:
        with archive.trial([*copy.crystals, *(copy.crystal_of(line) for line in leaving)]) as trial:
            for line in leaving:
                _to_pointer(
                    copy,
                    line,
                    topic_for(redacted_line(snapshot, line), trusted_topic(snapshot, line, wanted[line.id])),
                    trial,
                )
    for _ in range(MAX_ROUNDS):
        retire_spare_pointers(room, copy)
        fading = _enough(snapshot, room, copy)
        if not fading:
            break
        with archive.trial([*copy.crystals, *(copy.crystal_of(line) for line in fading)]) as trial:
            moved = [_to_pointer(copy, line, topic_for(redacted_line(snapshot, line)), trial) for line in fading]
        if not any(moved):
            break
    retire_spare_pointers(room, copy)
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
    """The budget; more, when headings, pinned lines and the owner's own text leave less than a quarter of it."""
    movable = [line.text for line in (*copy.lines, *copy.old_text) if not line.pinned]
    fixed = copy.characters - sum(len(text) + 3 for text in movable)
    lines = max(snapshot.budget - fixed, int(LEAST_SHARE * snapshot.budget))
    return Room(max(snapshot.budget, fixed + lines), int(POINTERS_SHARE * lines))


def retire_spare_pointers(room: Room, copy: WorkingCopy) -> None:
    """At most 20 pointers, in a quarter of the room, stay in the file: the least used go, the oldest first."""
    while len(copy.pointers) > MAX_POINTERS or _pointed(copy) > room.pointers:
        _retire(copy, _least_used(copy))


def topic_for(line: CurrentLine, said: str = "") -> str:
    """The topic of a line's pointer: what was said, when it names the line and orders nothing, else the line's own.

    An order that is not the owner's stands in the topic as a quotation, as it does in the line, and so does what a
    page or a program said.
    """
    named = content_terms(said) & content_terms(line.text) and reads_as_instruction(said) is None
    inner, speaker = unquoted(line.text)
    trust = spoken_trust(line.text, line.trust)
    for text in (said, line.text) if named else (line.text,):
        topic = topic_of(text)
        if trust is Trust.OWNER:
            return topic
        if trust is Trust.AGENT and not (is_quoted(text) or speaker or reads_as_instruction(topic)):
            return topic
    return quote(inner, trust, TOPIC_CHARACTERS)


def redacted_line(snapshot: Snapshot, line: CurrentLine) -> CurrentLine:
    """The line as it may be spoken of in the place where it stood: without the secrets that its owner wrote."""
    return replace(line, text=snapshot.redaction.of(line.text))


def trusted_topic(snapshot: Snapshot, line: CurrentLine, said: str) -> str:
    """A topic that a model gives, unless a word of it comes from a page or a program rather than from the line."""
    strange, news = strangers(snapshot), content_terms(said) - content_terms(line.text)
    taken = any(news & content_terms(voice.text) for voice in strange) or foreign(said, [line.text], strange)
    return "" if taken else said


def fading_order(snapshot: Snapshot, lines: Sequence[CurrentLine]) -> list[CurrentLine]:
    """The lines in the order in which they may leave.

    By importance within the hormones' weight of their section, then the oldest first; then what code counts (The
    Niche, Emerging Skills), since the next dream would write it again; last what the owner wrote by hand. Pinned
    lines and pointers are not among them.
    """
    free = [line for line in lines if not line.pinned and line.section is not SectionName.POINTERS]
    return sorted(
        free,
        key=lambda line: (
            line.id in snapshot.handwritten,
            line.section in COUNTED,
            round(line.importance * section_weight(snapshot.hormones, line.section.value), 2),
            line.born_at,
            line.id,
        ),
    )


def _enough(snapshot: Snapshot, room: Room, copy: WorkingCopy) -> list[CurrentLine]:
    """So many lines, in their order, that the document fits when each has become a pointer.

    Old text from before the first dream goes first, a bounded number of lines a dream.
    """
    excess = copy.characters - room.characters
    free = room.pointers - _pointed(copy)
    tried = copy.unmovable
    old = [line for line in copy.old_text if line.id not in tried and not line.pinned][
        : max(0, MAX_OLD_LINES - copy.old_left)
    ]
    ordered = old + [line for line in fading_order(snapshot, copy.lines) if line.id not in tried]
    chosen: list[CurrentLine] = []
    for line in ordered:
        if excess <= 0:
            break
        chosen.append(line)
        excess -= len(line.text)
        # Once their room is taken, a new pointer pushes an old one out.
        if free >= POINTER_CHARACTERS and len(copy.pointers) + len(chosen) <= MAX_POINTERS:
            excess += POINTER_CHARACTERS
            free -= POINTER_CHARACTERS
    return chosen


def _to_pointer(copy: WorkingCopy, line: CurrentLine, topic: str, trial: Trial) -> bool:
    """Put a verified pointer in the place of a line. Without one the line stays and the refusal says so."""
    crystal = copy.crystal_of(line)
    keywords = _keywords(crystal.text, crystal.id, trial)
    if keywords is None:
        figures = f"no words of {line.id} lead the search to it among {FIRST}; it stays"
        copy.keep(line, Refusal("pointer", "operation", figures))
        return False
    copy.remove(line, Fate.EVICTED, crystal)
    copy.point(PointerLine(topic, keywords, crystal.id, line.id))
    return True


def _keywords(text: str, crystal: str, trial: Trial) -> str | None:
    # Of stop words, which stand in most of a large store, no pointer is made: they need no counting.
    ranked = candidates(text, trial.frequency(content_words(text)))
    return choose(ranked, lambda words: crystal in trial.first(words, FIRST))


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
            keywords = _keywords(text, pointer.crystal, trial) if text else None
            _retire(copy, pointer)
            if keywords is not None:
                copy.point(PointerLine(pointer.topic, keywords, pointer.crystal, pointer.line, pointer.uses))


def _pointed(copy: WorkingCopy) -> int:
    return sum(len(render_pointer(pointer.topic, pointer.keywords)) + 3 for pointer in copy.pointers)


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
