"""Restore: commits an older version of MEMORY.md as a new one, and makes what was consumed since pending again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from daemon.dream.memory import commit_owners
from daemon.ingest.notes import absorb_notes
from daemon.workspace.document import read_document, settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import TakenBack
from state.changes.change import Change, CurrentLine, numbered
from state.changes.owner import restored_text
from state.document.document import parse
from state.document.operations import Why
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.dream import RESTORE, Answer, Corrected, Dream, Remark
from state.errors import NotFoundError, StorageError
from state.signals.hormones import mood
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.text.words import normalise


def restore(store: Store, number: int) -> Dream:
    """Commit MEMORY.md as it was in this version, as a new version.

    Notes and crystals that later versions consumed become input again; the notes are pending and in the bootstrap.
    Restoring the version before a restore undoes that restore: its input is consumed again. What later dreams
    proposed is dropped, as its input is pending again. Lines that leave are kept as crystals. Tombstones that were
    lifted since are set again. If the record of a later version is missing or damaged, its crystals become input
    again, and `problems` names it. Raise NotFoundError for an unknown version, ConflictError if the owner saved
    MEMORY.md at the same instant.
    """
    text = store.memory.text(number)
    absorb_notes(store, utc_now(), most=None)  # so that scratch.md is rewritten with every pending note
    settle_document(store)
    before, problems = read_document(store.workspace, store.connection)
    standing = store.lineage.current_lines()
    later, lost = _later(store.memory, store.lineage, number)
    back = taken_back(later)
    wrong = {text for one in back.uncorrected for text in one.unwanted}
    now = utc_now()
    changes = _as_weighed(restored_text(standing, text, now, store.lineage.as_it_was), standing, store, number)
    dreamt, redreamt = _consumed_by(later)
    taken = store.crystals.taken_in((*dreamt, *redreamt))  # a dream that made no version may have taken some in
    unsaid = (*lost, *store.lineage.emptied_after(number))
    unread = (one for version in unsaid for one in store.crystals.dreamt_in(version))
    present = {normalise(block.text) for _, block in parse(text).lines()}
    lifted = dict.fromkeys(one for record in later for one in record.lifted_tombstones)
    again = (text for one in back.corrected for text in one.unwanted)
    dream = Dream(
        number=store.lineage.last_version() + 1,
        id=f"{now:%Y%m%dT%H%M%S%f}Z",
        at=now,
        cause=RESTORE,
        reason=f"version {number}",
        before=before,
        after=text,
        mood=mood(store.feelings.levels(now)),
        changes=numbered(_pointing(store.lineage, changes), store.lineage.next_line()),
        dreamt=tuple(dict.fromkeys((*(one for one in dreamt if one in taken), *unread))),
        redreamt=tuple(one for one in redreamt if one not in taken),
        remarks=_remarks(store.notes, number, later),
        tombstones=tuple(one for one in (*lifted, *again) if normalise(one) not in present),
        lifted_tombstones=tuple(
            one for one in store.lineage.tombstones() if normalise(one) in present or one in wrong
        ),
        uncorrected=back.uncorrected,
        corrected=back.corrected,
        since=number + 1,
        problems=(*problems, *lost.values()),
        answers=tuple(_answers(store, later)),
    )
    return commit_owners(store, dream, f"version {number} again")


def taken_back(records: Iterable[Dream]) -> TakenBack:
    """Return what takes back the corrections of these versions, which are all up to the last, in their order."""
    active, inactive = list[Corrected](), list[Corrected]()
    for record in records:
        for gone, come, one in (
            *((active, inactive, one) for one in record.uncorrected),
            *((inactive, active, one) for one in record.corrected),
        ):
            gone.remove(one) if one in gone else come.append(one)
    return TakenBack(tuple(reversed(active)), tuple(inactive))


def _answers(store: Store, later: Sequence[Dream]) -> Iterator[Answer]:
    """Yield what becomes of proposals: those of these versions are dropped, others are as before their answers."""
    first = {answer.number: answer for record in reversed(later) for answer in record.answers}
    dropped = {one.number for record in later for one in store.proposals.of(record.id)}
    for number in sorted(dropped | first.keys()):
        one = store.proposals.find(number)
        if one is None:
            continue
        now = "dropped" if one.dream in {record.id for record in later} else first[number].was
        if now != one.answer:
            yield Answer(number, now, one.answer)


def _later(memory: Memory, lineage: Lineage, number: int) -> tuple[list[Dream], dict[int, str]]:
    """Return the records of the versions after this one, and for each unreadable record its problem, by version."""
    records, lost = list[Dream](), dict[int, str]()
    for version in lineage.versions_after(number):
        try:
            records.append(memory.version(version))
        except (NotFoundError, StorageError) as error:
            lost[version] = f"version {version} has no record that can be read ({error.what})"
    return records, lost


def _consumed_by(later: Sequence[Dream]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the crystals to make input again, and those to mark as consumed, to undo these versions."""
    was, is_ = dict[str, bool](), dict[str, bool]()  # whether each crystal was consumed before them, and is now
    for record in later:
        is_restore = record.cause == RESTORE
        for crystals, dreamt in ((record.dreamt, not is_restore), (record.redreamt, True)):
            for crystal in crystals:
                was.setdefault(crystal, not dreamt)
                is_[crystal] = dreamt
    return (
        tuple(crystal for crystal, dreamt in is_.items() if dreamt and not was[crystal]),
        tuple(crystal for crystal, dreamt in is_.items() if was[crystal] and not dreamt),
    )


def _remarks(notes: Notes, number: int, later: Sequence[Dream]) -> tuple[Remark, ...]:
    """Return the marks that make notes pending or consumed as at this version; the earliest later record decides."""
    then: dict[int, int | None] = dict.fromkeys(notes.consumed_after(number))
    told = set[int]()
    for one in (remark for record in later for remark in record.remarks):
        if one.note not in told:
            told.add(one.note)
            then[one.note] = one.before if one.before is not None and one.before <= number else None
    now = notes.consumed_in(then)
    return tuple(Remark(note, now[note], was) for note, was in then.items() if note in now and now[note] != was)


def _as_weighed(
    changes: Sequence[Change], standing: Sequence[CurrentLine], store: Store, number: int
) -> Iterator[Change]:
    """Yield the changes, and those that give lines which stay the importance and the last day of this version."""
    then = store.lineage.stood_in(number)

    def weighed(line: CurrentLine) -> CurrentLine:
        was = then.get(normalise(line.text), line)
        return replace(line, importance=was.importance, until=was.until)

    for one in changes:
        yield replace(one, come=tuple(map(weighed, one.come)))
    gone = {line.id for one in changes for line in one.gone}
    for line in standing:
        if line.id not in gone and (was := weighed(line)) != line:
            yield Change(Why.WEIGHED, (line,), (was,))


def _pointing(lineage: Lineage, changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes, with the pointers that they bring back linked to their crystals."""
    known = [*lineage.pointers(current=False), *lineage.pointers(current=True)]
    behind = {pointer.keywords: pointer.crystal for pointer in known}

    def led(line: CurrentLine) -> CurrentLine:
        parsed = parse_pointer(line.text) if line.section is SectionName.POINTERS else None
        return replace(line, crystal=behind.get(parsed[1], "")) if parsed is not None else line

    for one in changes:
        yield replace(one, come=tuple(map(led, one.come)))
