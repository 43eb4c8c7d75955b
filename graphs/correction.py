"""Correction: puts right what the owner calls wrong, as a version that consumes no input.

It is put right in every line and crystal that the owner names, and in no other. What is right becomes a crystal that
supersedes those; if it is simply not true, that crystal is a denial ("It is not true that: ..."), which a search
shows as the current state. What a line or a crystal says beside it stays, and no dream writes it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from graphs.checks import vetoed
from graphs.review import OWNERS_IMPORTANCE, UNHELD, Carried, Review, is_pointer
from graphs.sheet import SAID_ALREADY
from state.changes.change import Change, CurrentLine
from state.changes.owner import same_as_deleted
from state.changes.page import owners_words
from state.crystals.crystal import Crystal
from state.document.document import parse
from state.document.operations import Action, Operation, Refusal, Why
from state.document.sections import SectionName
from state.dream import EDIT, Corrected, Correction, Snapshot
from state.text.words import normalise
from state.trust import Trust

NOT_TRUE = "It is not true that: "


@dataclass(frozen=True, slots=True)
class Wrong:
    """What the owner calls wrong, and what is right (empty: it is simply not true).

    `lines` has the ids of the lines that say it, with what they say afterwards (empty: they leave), `crystals` the
    ids of crystals that say it, with the crystal of what else they say, if anything. `noted` become pending notes, as
    does what is right, unless a line says it; `beside` is what else is done.
    """

    text: str
    right: str
    lines: Mapping[str, str]
    crystals: Mapping[str, Crystal | None]
    noted: tuple[Crystal, ...] = ()
    beside: Corrected = Corrected()  # noqa: RUF009 - it is immutable


def correct(snapshot: Snapshot, wrong: Wrong) -> Carried:
    """Return the version that puts it right, or why there is none: `refused` by the places of the lines."""
    review, lines = Review(snapshot), [line for line in snapshot.lines if line.id in wrong.lines]
    refused, written = dict[int, Refusal](), list[CurrentLine]()
    reworded = dict[str, str]()  # the crystal of the new wording, by the line that left
    for place, line in enumerate(lines):
        if (refusal := _put_right(review, line, wrong.lines[line.id])) is not None:
            refused[place] = refusal
        elif come := review.changes[-1].come:
            written += come
            reworded[line.id] = review.said[-1].id
    if refused:
        return Carried(None, refused)
    made = {one.text: one for one in (_right(snapshot, wrong), *wrong.noted, *review.said)}
    right = next(iter(made.values()))
    halves = {id_: made.setdefault(half.text, half) for id_, half in wrong.crystals.items() if half is not None}
    corrections = [
        Correction(right.id, tuple(wrong.crystals)),
        *(Correction(half.id, (id_,)) for id_, half in halves.items()),
        *(Correction(reworded.get(line.id, right.id), (), line.id) for line in lines if not is_pointer(line)),
    ]
    standing = {normalise(line.text) for line in review.standing}
    is_news = wrong.right and not any(normalise(wrong.right) in text for text in standing)
    gone = dict.fromkeys((wrong.text, *(line.text for line in lines if not is_pointer(line))))
    review.unwanted = [one for one in gone if normalise(one) not in standing and one not in snapshot.tombstones]
    review.lifted = [one for one in snapshot.tombstones if any(same_as_deleted(line.text, one) for line in written)]
    review.said = list(made.values())
    dream = review.version(EDIT, "wrong")
    after = {(name, block.key) for name, block in parse(dream.after).lines()}
    if any((line.section, normalise(line.text)) not in after for line in written):
        return Carried(None, {0: UNHELD})  # its text parses as something other than this one line
    corrected = replace(
        wrong.beside,
        corrections=tuple(corrections),
        unwanted=tuple(review.unwanted),
        lifted=tuple(review.lifted),
        noted=tuple(dict.fromkeys(made[one.text].id for one in (*wrong.noted, *([right] if is_news else [])))),
    )
    return Carried(replace(dream, corrected=(corrected,)), {})


def _right(snapshot: Snapshot, wrong: Wrong) -> Crystal:
    """Return the crystal of what is right, or of the denial."""
    text = wrong.right or f"{NOT_TRUE}{wrong.text}"
    line = CurrentLine("", SectionName.CONTEXT, text, OWNERS_IMPORTANCE, Trust.OWNER, snapshot.now)
    return owners_words(line, snapshot.redaction, snapshot.now)


def _put_right(review: Review, line: CurrentLine, text: str) -> Refusal | None:
    """Have a line say this text, or leave if that is empty or another line says it already."""
    if line.pinned:
        return Refusal("pinned", "operation", f"{line.id} is pinned; unpin it first")
    if text:
        refusal = review.write(Operation(Action.REVISE, line.section, text, (line.id,)), (vetoed,))
        if refusal is None or not refusal.figures.endswith(SAID_ALREADY):
            return refusal
    why = Why.EVICTED if is_pointer(line) else Why.DELETED
    return UNHELD if review.change(Change(why, (line,))) is None else None
