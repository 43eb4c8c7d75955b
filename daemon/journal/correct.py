"""Correct: puts right what its owner calls wrong, in every place that they name and in no other, as one version."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from daemon.dream.memory import commit_owners
from daemon.dream.snapshot import standing
from daemon.ingest.notes import absorb_notes, note_crystal
from daemon.journal.mentions import Mentioned, Subject, mentions_of
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.correction import Wrong, correct
from state.changes.change import CurrentLine
from state.changes.statement import Likeness
from state.crystals.crystal import Crystal
from state.document.sections import SectionName
from state.dream import Corrected, Dream
from state.errors import ConflictError, NotFoundError, RejectedError
from state.forgetting.folded import fold
from state.signals.curiosity import Gap
from state.text.pieces import with_other_sentence


def put_right(store: Store, subject: Subject, right: str, only: Collection[str]) -> tuple[Dream, list[Mentioned]]:
    """Put it right in the places with these ids (empty: in all that surely say so); return these and the version.

    Raise NotFoundError if nothing says so, ConflictError if a place says something else by now, and RejectedError if
    a line is pinned or cannot hold what is right.
    """
    if not store.lineage.last_version():
        raise ConflictError("no dream has read MEMORY.md yet", "change the file, or run 'dreamd dream' first")
    settle_document(store)
    absorb_notes(store, utc_now(), most=None)  # so that every note is a row
    chosen = _chosen(mentions_of(store, subject), only)
    done = correct(standing(store, utc_now()), _wrong(store, subject, right, chosen))
    if done.dream is None:
        raise RejectedError(next(iter(done.refused.values())).figures, "nothing was changed; look at MEMORY.md")
    known = store.crystals.ids_of(one.digest for one in done.dream.crystals)
    new = {one.id for one in done.dream.crystals if one.digest not in known}
    corrected = tuple(_marked(one, new) for one in done.dream.corrected)
    return commit_owners(store, replace(done.dream, corrected=corrected), "wrong"), chosen


def _marked(one: Corrected, new: Collection[str]) -> Corrected:
    """Return it with what is new for it: when it is taken back, that holds no longer."""
    return replace(one, corrections=tuple(replace(each, is_new=each.crystal in new) for each in one.corrections))


def _chosen(every: Sequence[Mentioned], only: Collection[str]) -> list[Mentioned]:
    ids = {place.id for one in every for place in one.places}
    if gone := sorted(set(only) - ids):
        raise ConflictError(f"{gone[0]} does not say so any more", "nothing was changed; look again")
    if only:
        return [one for one in every if any(place.id in only for place in one.places)]
    chosen = [one for one in every if one.found.likeness is Likeness.SAME]
    if not chosen:
        raise NotFoundError("nothing that is remembered says so", "'dreamd search' shows what is remembered")
    return chosen


def _wrong(store: Store, subject: Subject, right: str, chosen: Sequence[Mentioned]) -> Wrong:
    """Return what is to be done in each place."""
    lines, crystals, halves, beside = dict[str, str](), dict[str, Crystal | None](), list[Crystal](), Corrected()
    pending = store.notes.pending()
    named = {place.id for one in chosen for place in one.places}
    meant = subject.line.id if subject.line and subject.line.id in named else ""
    said = {fold(line.text).words for line in store.lineage.current_lines()}
    for one in chosen:
        values, words = [place.value for place in one.places], fold(one.text).words
        for line in (value for value in values if isinstance(value, CurrentLine)):
            is_first = line.id == meant or not (meant or lines or line.section is SectionName.POINTERS)
            lines[line.id] = _reworded(one, subject, right) if is_first and right else one.rest
        notes = [row for row in pending if fold(row.note.text).words == words]
        rest = (row.note._replace(text=one.rest) for row in notes if one.rest)
        noted = [note_crystal(store.connection, store.config, note, note.at) for note in rest]
        # What the line still says needs no crystal beside its wording.
        is_needed = (
            one.rest and fold(one.rest).words not in said and not any(lines.get(place.id) for place in one.places)
        )
        for crystal in (value for value in values if isinstance(value, Crystal)):
            crystals[crystal.id] = next(iter(noted), None) or (_half(crystal, one.rest) if is_needed else None)
        halves += noted
        beside = replace(
            beside,
            taken=(*beside.taken, *(row.key for row in notes)),
            questions=(*beside.questions, *(value for value in values if isinstance(value, Gap))),
            items=(*beside.items, *(value for value in values if isinstance(value, int))),
        )
    return Wrong(subject.text, right, lines, crystals, tuple(halves), beside)


def _reworded(one: Mentioned, subject: Subject, right: str) -> str:
    """Return a line with what is right in place of what is wrong; what else it says stays."""
    if not one.rest:
        return right
    close = "" if one.rest[-1] in ".!?。！？" else "."
    return with_other_sentence(one.text, subject.text, right) or f"{one.rest}{close} {right}"


def _half(crystal: Crystal, rest: str) -> Crystal:
    """Return the crystal of what else a crystal says."""
    return Crystal(
        text=rest,
        origin=crystal.origin,
        created_at=crystal.created_at,
        kind=crystal.kind,
        importance=crystal.importance,
        trust=crystal.trust,
        context=crystal.context,
        speaker=crystal.speaker,
        parents=(crystal.id,),
        valence=crystal.valence,
        heard=crystal.heard,
    )
