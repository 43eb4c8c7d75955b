"""Repair: `dreamd doctor --repair` makes a broken workspace work again and keeps everything that is readable.

    links, folders, permissions ─> state.db ─> MEMORY.md ─> checkpoints ─> indexes ─> a look

Each step looks for faults after the steps before it are done, reports them and repairs them. Replaced files are kept
aside. A step that was cut off is redone by the next repair; a step without faults changes nothing.
"""

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.notes import learn_notes, note_crystal
from daemon.upkeep.examine import FILES, check_stores, look
from daemon.workspace.checks import Finding, Level, Subject, right_mode
from daemon.workspace.searching import embed_waiting, embedder_of
from daemon.workspace.stores import open_owned, recover, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.document.document import Block, Edit, complete, parse, render
from state.document.editing import edited
from state.document.sections import SectionName
from state.errors import DocumentError, DreamdError
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import SIDES, transaction
from state.stores.database.copies import clear_damaged, copied_at, copies_of, write_copy
from state.stores.database.opening import open_database
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.files import empty_folder
from state.stores.history.inbox import NoteInbox, digest_of
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.zone import clock_time

_LOST = "lost: sessions, the ledger and what else stood in state.db alone"
_ALIKE = 0.8
# A row this similar to one of the last version's, apart from undecodable bytes, is that row.
_SAME = 0.95
# The share of rows that may be invalid UTF-8 in a file that still counts as text.
_FEW = 0.1


@dataclass(frozen=True, slots=True)
class RepairResult:
    """A fault, the action taken (or proposed), and its results."""

    about: str
    wrong: str
    deed: str
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair. `left`: remaining faults; `kept`: replaced files, in the folder `aside`."""

    mends: tuple[RepairResult, ...] = ()
    left: tuple[Finding, ...] = ()
    aside: str = ""
    kept: tuple[str, ...] = ()
    dry: bool = False


def repair(
    workspace: Workspace,
    config: Config,
    check: Callable[[], None],
    embedding: Embedding,
    on_step: Callable[[Step], None] = lambda _: None,
    disk: Disk | None = None,
) -> Repair:
    """Repair everything that can be repaired. The caller owns the workspace and has none of its stores open.

    Raise StorageError if the disk fails or is full; completed steps stay, and the next repair continues.
    """
    work, mends = _Repairing(workspace, config, check, disk or workspace.disk()), list[RepairResult]()
    for one, act in work.faults():
        check()
        mends.append(replace(one, results=act() or ()))
        on_step(Step(one.about, f"{one.wrong}: {one.deed}"))
    if workspace.database.is_symlink():
        linked = Finding("stores", Level.WARNING, "not looked into: state.db is a link")
        return Repair(tuple(mends), (*work.left, linked), work.aside, tuple(work.kept))
    left = work.left
    with (
        closing(Index(workspace, check, embedding)) as index,
        closing(open_owned(index, config)) as store,
    ):
        try:
            recover(store)
        except DreamdError as error:
            left.append(Finding("commit", Level.PROBLEM, error.what, error.advice))
        for notice in store.notices:
            topic = "word index" if "index" in notice else "commit"
            mends.append(RepairResult(topic, f"the {topic} was found torn or unfinished", notice))
        store.notices.clear()
        waiting = store.crystals.vectors.waiting()[0] if work.is_rebuilt else 0
        if waiting and embedder_of(store) is not None:
            wrong, results = f"{waiting:,} crystals have no vector", (f"{embed_waiting(store):,} vectors",)
            mends.append(RepairResult("embeddings", wrong, "they are embedded", results))
        for found in check_stores(store):
            if found.about == "word index" and found.level is Level.WARNING:
                wrong, _, deed = found.what.partition("; ")
                mends.append(RepairResult("word index", wrong, deed))
            elif found.level is Level.PROBLEM or (found.level is Level.WARNING and found.about == "history"):
                left.append(found)
    return Repair(tuple(mends), tuple(left), work.aside, tuple(work.kept))


def survey(workspace: Workspace, config: Config, check: Callable[[], None]) -> Repair:
    """Return what `repair` would do, as far as that shows before any step. Write nothing."""
    work = _Repairing(workspace, config, check, workspace.disk())
    mends = tuple(one for one, _ in work.faults())
    return Repair(mends, tuple(work.left), dry=True)


Act = Callable[[], tuple[str, ...] | None]


@dataclass(slots=True)
class _Repairing:
    """The part of a repair before the stores are opened. `check` raises if this process no longer owns the workspace.

    `left`: problems that a person has to solve; `is_rebuilt`: state.db was replaced. Removed files are `kept` in the
    folder `aside` (broken/TIME/ in the state folder), which is created on first use.
    """

    workspace: Workspace
    config: Config
    check: Callable[[], None]
    disk: Disk
    left: list[Finding] = field(default_factory=list)
    is_rebuilt: bool = False
    aside: str = ""
    kept: list[str] = field(default_factory=list)
    damaged_copies: list[Path] = field(default_factory=list)

    def faults(self) -> Iterator[tuple[RepairResult, Act]]:
        """Yield each fault with what mends it; each check looks after the faults before it are mended."""
        for check in FILES:
            at = Subject(self.workspace, self.config, utc_now(), is_held=False)
            for found in [*look([check], at)]:
                if found.path is not None and (planned := self._plan(found.about, found.path)) is not None:
                    yield RepairResult(found.about, found.what, planned[0]), planned[1]
                elif found.level is Level.PROBLEM:
                    self.left.append(found)

    def _plan(self, about: str, path: Path) -> tuple[str, Act] | None:
        """Return what mends this fault of a file, in words and as a function; None if nothing does."""
        plan: tuple[str, Act] | None = None
        match about:
            case "folders" | "notes":
                plan = "it is kept aside, and made again when it is needed", partial(self._put_aside, path)
            case "permissions":
                mode = right_mode(path, self.workspace)
                plan = f"they are {mode:o} again", partial(_set_mode, path, mode)
            case "copies" if path == self.workspace.database:
                plan = "it is sound now, and will be copied", partial(clear_damaged, path, self.disk)
            case "copies":
                self.damaged_copies.append(path)
                plan = "it is kept aside", partial(self._put_aside, path)
            case "state.db":
                plan = self._restoration(path)
            case "commit" if self.is_rebuilt:  # no commit will settle files that swaps of MEMORY.md took out
                plan = "it is kept aside: it may hold a save of yours", partial(self._put_aside, path)
            case "MEMORY.md":
                plan = self._replacement(path)
            case "checkpoints":
                plan = "they go; an interrupted dream begins anew", partial(empty_folder, self.disk, path.parent)
        return plan

    # Quarantine.

    def _put_aside(self, path: Path) -> None:
        """Move the file or folder to quarantine; a crash leaves it in one of the two places."""
        target = self._place(path)
        self.disk.rename(path, target)
        if not target.is_symlink():
            target.chmod(0o700 if target.is_dir() else 0o600)

    def _place(self, path: Path) -> Path:
        """Return a free path in quarantine for this file, and create its parent folder."""
        if not self.aside:
            home = self.workspace.state / "broken"
            if os.path.lexists(home) and not home.is_dir():
                self.disk.rename(home, _free(home))
            self.disk.make_folder(home)
            self.aside = str(_free(home / f"{utc_now():%Y%m%dT%H%M%SZ}"))
            self.disk.make_folder(Path(self.aside))
        place = _free(Path(self.aside) / path.name)
        self.kept.append(str(place))
        return place

    # MEMORY.md: the last version replaces a damaged one, together with whole lines that its owner wrote since.

    def _replacement(self, path: Path) -> tuple[str, Act] | None:
        last, wanted = Subject(self.workspace, self.config, utc_now(), is_held=False).last_version()
        if not wanted:
            return None
        found = self.disk.read_optional(path) if path.is_file() else b""
        text, is_read = _mended(found or b"", wanted)
        deed = f"version {last} takes its place"
        if is_read:
            deed = f"all that can be read stays, and what it lacks comes from version {last}"
        return f"{deed}{'; what was found is kept aside' if found else ''}", partial(self._replace, path, text)

    def _replace(self, path: Path, text: str) -> None:
        if path.is_file():
            self.disk.write_new(self._place(path), path.read_bytes())
        elif os.path.lexists(path):
            self._put_aside(path)
        self.check()
        self.disk.write_atomic(path, text.encode(), mode=0o644)

    # state.db: the last sound copy replaces a damaged one; newer content comes from the files.

    def _restoration(self, path: Path) -> tuple[str, Act]:
        copy = next((one for one in copies_of(path) if one not in self.damaged_copies), None)
        deed = "it is built anew of the notes and MEMORY.md"
        if copy is not None:
            deed = f"the copy of {clock_time(copied_at(copy), self.config.zone)} takes its place"
        return deed, partial(self._restore, copy)

    def _restore(self, copy: Path | None) -> tuple[str, ...]:
        """Write the new database beside the old one, move the old files aside, and rename the new one into place."""
        path, disk = self.workspace.database, self.disk
        new = path.with_name(f".{path.name}.new")
        for side in SIDES:
            disk.remove(new.with_name(new.name + side))
        if copy is not None:
            write_copy(copy, new)
        self._fill(new)
        disk.sync(new)
        self.check()
        for side in SIDES:
            if os.path.lexists(old := path.with_name(path.name + side)):
                self._put_aside(old)
        if self.workspace.index.is_dir() and not self.workspace.index.is_symlink():
            empty_folder(self.disk, self.workspace.index)  # the vector index belongs to the old state.db
        disk.rename(new, path)
        self.is_rebuilt = True
        if copy is None:
            return (f"{_LOST}; transcripts that sources.transcripts does not name are to be ingested again",)
        return (f"{_LOST} since {clock_time(copied_at(copy), self.config.zone)}",)

    def _fill(self, path: Path) -> None:
        """Add what a restored database lacks: the current MEMORY.md and newer notes."""
        with closing(open_database(path)) as connection:
            crystals, lineage = Crystals(connection), Lineage(connection)
            notes = Notes(NoteInbox(self.workspace, self.disk), connection, self.config.redaction.of)
            memory = Memory(self.workspace, self.disk, crystals, lineage, notes, self.check, self.config.redaction)
            with suppress(DocumentError):  # a file that is not text is repaired after the database
                memory.adopt()
            self._take_notes(crystals, notes, lineage.last_version())
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _take_notes(self, crystals: Crystals, notes: Notes, version: int) -> None:
        """Make rows of the notes since the copy: pending if scratch.md shows them, else consumed.

        The inbox has every note since the copy, and scratch.md shows those that were not consumed. Without a
        scratch.md, or if dreamd may not have written it, all of them are pending: better read twice than never.
        """
        inbox = notes.inbox

        def learn(files: Iterable[Path]) -> None:
            learn_notes(crystals, notes, self.config, notes.unread(utc_now(), sys.maxsize, files), utc_now())

        # A scratch.md that an append created after its folder was deleted shows none of the earlier notes.
        found = inbox.shown()
        shown = found if inbox.displaced() else None
        with transaction(crystals.connection):
            again = notes.revive(
                digest_of(one) for one in found or () if one.stamped
            )  # made pending again by a restore since the copy
            crystals.undream([one.id for one in crystals.by_keys(again).values()])
            learn([inbox.workspace.scratch])
            pending = {one.key for one in notes.pending()}
            learn(filter(inbox.is_inbox, inbox.files()))
            if shown is not None:
                written = (
                    note_crystal(crystals.connection, self.config, one, one.at) for one in shown if not one.stamped
                )
                by_hand = crystals.keys(crystals.ids_of(one.digest for one in written).values()).values()
                digests = {digest_of(one) for one in shown if one.stamped}
                gone = [
                    one
                    for one in notes.pending()
                    if one.key not in pending or (digest_of(one.note) not in digests and one.crystal not in by_hand)
                ]
                notes.consume([one.key for one in gone], version)
                taken = crystals.by_keys({one.crystal for one in gone})
                crystals.mark_dreamt([one.id for one in taken.values()], version)
            learn(inbox.displaced().values())


def _free(path: Path) -> Path:
    while os.path.lexists(path):
        path = path.with_name(f"{path.name}+")
    return path


def _set_mode(path: Path, mode: int) -> None:
    with storage_errors(path):
        path.chmod(mode)


def _mended(found: bytes, wanted: str) -> tuple[str, bool]:
    """Return the replacement for a damaged file, and whether that is the file itself, repaired.

    A row of invalid UTF-8 is either a row of the version with a changed byte, or in a legacy encoding, which is
    decoded; missing sections come from the version. In a torn file such a row is noise: the version replaces the
    file, together with the whole lines that only the file has.
    """
    known, rows = wanted.split("\n"), found.split(b"\n")
    bad = [number for number, row in enumerate(rows) if row.decode(errors="ignore").encode() != row or b"\0" in row]
    is_torn = not found.strip() or b"\0" in found or len(bad) > max(1, len(rows) * _FEW)
    is_torn = is_torn or wanted.startswith(found.decode("utf-8", "replace"))
    read = [row.decode("utf-8", "ignore") for row in rows]
    for number in bad:
        same = difflib.get_close_matches(read[number], known, 1, _SAME)
        read[number] = same[0] if same else "" if is_torn else rows[number].decode("cp1252", "replace")
    if is_torn or any(row.startswith(read[-1]) for row in known):  # the last row may be cut off
        read[-1] = ""
    document, base = parse("\n".join(read)), parse(wanted)
    onto, other = (base, document) if is_torn else (complete(document), base)
    present, there = ({block.key for part in one.parts for block in part.lines} for one in (onto, other))
    lost = sorted(present - there)

    def is_lacking(section: SectionName, block: Block) -> bool:
        if not is_torn:
            return section in document.missing
        # A line very similar to a missing one is that line, damaged.
        is_line = section is not SectionName.POINTERS and block.text.isprintable()
        return is_line and not difflib.get_close_matches(block.key, lost, 1, _ALIKE)

    new = [(section, block) for section, block in other.lines() if block.key not in present]
    edits = [Edit(section, (), block.text) for section, block in new if is_lacking(section, block)]
    return render(edited(onto, edits)[0]), not is_torn
