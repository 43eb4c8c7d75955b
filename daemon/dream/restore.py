"""Restore: commits an older version of MEMORY.md anew, and makes what was consumed since pending again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from daemon.dream.memory import commit_owners
from daemon.ingest.notes import absorb_notes
from daemon.workspace.document import read_document, settle_document
from daemon.workspace.stores import Store, utc_now
from state.changes.change import Change, CurrentLine, numbered
from state.changes.owner import restored_text
from state.document.document import parse
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.dream import RESTORE, Decided, Decision, Dream, Remark
from state.errors import NotFoundError, StorageError
from state.signals.hormones import mood
from state.stores.crystals.hormones import Feelings
from state.stores.history.changes import OPEN, Changes
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.text.words import normalise
from state.trust import Trust

RESTORED_IMPORTANCE = 0.7


def restore(store: Store, number: int) -> Dream:
    """Commit MEMORY.md as it was in this version, as a new version.

    Notes and crystals that later versions consumed are input again: the notes are pending, the bootstrap shows
    them. To restore the version before a restore undoes it: what that gave back is consumed again, and decided as it
    was. Lines that leave by it are crystals; what its owner had deleted then, and allowed since, is deleted again.
    Of a later version whose record is gone or damaged, what the crystals say is input again, and the dream's problems
    name it. Raises NotFoundError for a version that there is none of, ConflictError when its owner saved MEMORY.md in
    this instant.
    """
    text = store.memory.text(number)
    absorb_notes(store, utc_now(), most=None)  # scratch.md is written anew with all that is pending then
    settle_document(store)
    before, problems = read_document(store.workspace, store.connection)
    standing = store.lineage.current_lines()
    later, lost = _later(store.memory, store.lineage, number)
    now = utc_now()
    changes = restored_text(standing, text, now, partial(_earlier, store.lineage), RESTORED_IMPORTANCE)
    dreamt, redreamt = _consumed_by(later)
    unread = (one for version in lost for one in store.crystals.dreamt_in(version))
    present = {normalise(block.text) for _, block in parse(text).lines()}
    lifted = dict.fromkeys(one for record in later for one in record.lifted_tombstones)
    dream = Dream(
        number=store.lineage.last_version() + 1,
        id=f"{now:%Y%m%dT%H%M%S%f}Z",
        at=now,
        cause=RESTORE,
        reason=f"version {number}",
        before=before,
        after=text,
        mood=mood(Feelings(store.connection, store.config.baselines).levels(now)),
        changes=numbered(_pointing(store.lineage, changes), store.lineage.next_line()),
        dreamt=tuple(dict.fromkeys((*dreamt, *unread))),
        redreamt=redreamt,
        remarks=_remarks(store.notes, number, later),
        tombstones=tuple(one for one in lifted if normalise(one) not in present),
        lifted_tombstones=tuple(one for one in store.lineage.tombstones() if normalise(one) in present),
        problems=(*problems, *lost.values()),
        decided=_undecided(Changes(store.connection), later),
    )
    return commit_owners(store, dream, f"restore of version {number}", f"version {number} again")


def _later(memory: Memory, lineage: Lineage, number: int) -> tuple[list[Dream], dict[int, str]]:
    """Return the records of the versions after this one; of those that cannot be read what is wrong, by version."""
    records, lost = list[Dream](), dict[int, str]()
    for version in lineage.versions_after(number):
        try:
            records.append(memory.version(version))
        except (NotFoundError, StorageError) as error:
            lost[version] = (
                f"version {version} has no record that can be read ({error.what}): "
                "what it decided of changes stays decided"
            )
    return records, lost


def _consumed_by(later: Sequence[Dream]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the crystals that are input again, and those that are no longer, so that all is as before these."""
    was, is_ = dict[str, bool](), dict[str, bool]()  # whether each crystal was dreamt before them, and is now
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
    """Return how notes come to be pending, or consumed, as they were at this version: the first that tells knows."""
    then: dict[int, int | None] = dict.fromkeys(notes.consumed_after(number))
    told = set[int]()
    for one in (remark for record in later for remark in record.remarks):
        if one.note not in told:
            told.add(one.note)
            then[one.note] = one.before if one.before is not None and one.before <= number else None
    now = notes.consumed_in(then)
    return tuple(Remark(note, now[note], was) for note, was in then.items() if note in now and now[note] != was)


# Of a record that does not say what a change was before.
_BEFORE = {
    Decision.APPROVED: Decision.WAITING,
    Decision.UNDONE: Decision.APPLIED,
    Decision.OUTDATED: Decision.WAITING,  # by a restore, which is taken back
    Decision.WAITING: Decision.APPROVED,
    Decision.APPLIED: Decision.UNDONE,
}


def _undecided(changes: Changes, later: Sequence[Dream]) -> tuple[Decided, ...]:
    """Return the decisions by which changes are what they were before these versions.

    What these staged waits no longer: it is input again. What was declined stays so, and what was forgotten is over.
    """
    before: dict[tuple[str, int], Decision] = {}
    for record in later:
        for one in record.decided:
            before.setdefault((one.dream, one.place), one.before or _BEFORE[one.decision])
    staged = {record.id for record in later}
    known = [one for dream in sorted({*staged, *(dream for dream, _ in before)}) for one in changes.of(dream)]
    decided = []
    for change in known:
        decision = (
            Decision.OUTDATED if change.dream in staged else before.get((change.dream, change.place), change.decision)
        )
        if decision in OPEN and change.is_erased:
            decision = Decision.OUTDATED
        is_declined = change.decision is Decision.DECLINED and decision is not Decision.APPROVED
        if decision is not change.decision and not is_declined:
            decided.append(change.decided(decision))
    return tuple(decided)


def _earlier(lineage: Lineage, text: str) -> tuple[Trust, tuple[str, ...]]:
    """Return whose word a line was when it stood before, and the crystals that it rested on."""
    lives = [life for life in lineage.lives(text) if normalise(life.text) == normalise(text)]
    evidence = tuple(dict.fromkeys(crystal for life in lives for crystal in life.evidence))
    return (lives[0].trust, evidence) if lives else (Trust.OWNER, ())


def _pointing(lineage: Lineage, changes: Sequence[Change]) -> Iterator[Change]:
    """Give the pointers that come their crystals."""
    known = [*lineage.pointers(current=False), *lineage.pointers(current=True)]
    behind = {pointer.keywords: pointer.crystal for pointer in known}

    def led(line: CurrentLine) -> CurrentLine:
        parsed = parse_pointer(line.text) if line.section is SectionName.POINTERS else None
        return replace(line, crystal=behind.get(parsed[1], "")) if parsed is not None else line

    for one in changes:
        yield replace(one, come=tuple(map(led, one.come)))
