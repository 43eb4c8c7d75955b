"""Repair: `dreamd doctor --repair` makes a broken workspace work again and keeps everything that is readable.

    links, folders, permissions ─> state.db ─> MEMORY.md ─> checkpoints ─> indexes ─> a look

Each step looks for faults after the steps before it are done, reports them and repairs them. Replaced files are kept
aside. A step that was cut off is redone by the next repair; a step without faults changes nothing.
"""

import difflib
import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.notes import learn_notes, note_crystal
from daemon.upkeep.examine import Finding, Level, check_stores, problem, warning, wrong_with
from daemon.workspace.searching import embed_waiting, embedder_of
from daemon.workspace.stores import folders, open_owned, recover, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.document.document import Block, Edit, complete, parse, render
from state.document.editing import edited
from state.document.sections import SectionName
from state.errors import DocumentError, DreamdError
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import SIDES, open_database, open_unmigrated, transaction
from state.stores.database.copies import (
    broken_page,
    clear_damaged,
    copied_at,
    copies_of,
    found_damaged,
    is_readable,
    write_copy,
)
from state.stores.database.table import unpacked
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.files import empty_folder
from state.stores.history.inbox import NoteInbox, digest_of
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory, displaced_files
from state.stores.history.notes import Notes
from state.stores.repair.check import damage_of
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
    work = _Work(workspace, config, check, disk or workspace.disk())
    mends, left = list[RepairResult](), list(_unmendable(workspace))

    def mend(job: _Job) -> None:
        check()
        mends.append(RepairResult(job.about, job.wrong, job.deed, job.do() or ()))
        on_step(Step(job.about, f"{job.wrong}: {job.deed}"))

    for job in work.jobs():
        mend(job)
    if workspace.database.is_symlink():
        left.append(warning("stores", "not looked into: state.db is a link"))
        return Repair(tuple(mends), tuple(left), work.aside, tuple(work.kept))
    with (
        closing(Index(workspace, check, embedding)) as index,
        closing(open_owned(index, config)) as store,
    ):
        try:
            recover(store)
        except DreamdError as error:
            left.append(problem("commit", error.what, error.advice))
        for notice in store.notices:
            topic = "word index" if "index" in notice else "commit"
            mends.append(RepairResult(topic, f"the {topic} was found torn or unfinished", notice))
        for words, what in (("words", "the word index"), ("cold_words", "the word index of the cold archive")):
            if full_text.is_torn(store.connection, words):
                again = partial(full_text.rebuild, store.connection, words)
                mend(_Job("word index", f"{what} is torn", "it is built anew", again))
        waiting = store.crystals.vectors.waiting()[0] if work.is_rebuilt else 0
        if waiting and embedder_of(store) is not None:
            wrong, embed = f"{waiting:,} crystals have no vector", lambda: (f"{embed_waiting(store):,} vectors",)
            mend(_Job("embeddings", wrong, "they are embedded", embed))
        store.notices.clear()
        left += [
            one
            for one in check_stores(store)
            if one.level is Level.PROBLEM or (one.level is Level.WARNING and one.about == "history")
        ]
    return Repair(tuple(mends), tuple(left), work.aside, tuple(work.kept))


def survey(workspace: Workspace, config: Config, check: Callable[[], None]) -> Repair:
    """Return what `repair` would do, as far as that shows before any step. Write nothing."""
    jobs = _Work(workspace, config, check, workspace.disk()).jobs()
    mends = tuple(RepairResult(job.about, job.wrong, job.deed) for job in jobs)
    return Repair(mends, tuple(_unmendable(workspace)), dry=True)


def _unmendable(workspace: Workspace) -> Iterator[Finding]:
    """Find symbolic links in place of dreamd's files, which are not followed, and other users' files."""
    ours = list(_ours(workspace))
    others = (workspace.document, workspace.scratch, workspace.scratch.parent)
    links = [path for path in ours if path.is_symlink()]
    links += [path for path in others if path.is_symlink() and not _is_inside(path, workspace)]
    for path in links:
        what = f"{path} is a symbolic link to {path.readlink()}; it is not followed"
        yield problem("links", what, f"put the file itself in its place, or remove the link: rm '{path}'")
    owner = workspace.root.stat().st_uid
    strange = [path for path in (workspace.state, *ours) if path.lstat().st_uid != owner]
    if strange:
        what = f"{strange[0]} belongs to another user than the workspace ({len(strange)} such files and folders)"
        yield problem("permissions", what, f"run 'sudo chown -hR {owner} {workspace.state}'")


def _is_inside(path: Path, workspace: Workspace) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(workspace.root)  # unlike resolve, accepts a loop of links


def _ours(workspace: Workspace) -> Iterator[Path]:
    """Yield dreamd's files in the state folder, except ChromaDB's and those kept aside."""
    for folder in (workspace.state, workspace.checkpoints, workspace.copies):
        if folder.is_dir() and not folder.is_symlink():
            with suppress(OSError):  # an unreadable folder is reported itself
                yield from sorted(folder.iterdir())


@dataclass(frozen=True, slots=True)
class _Job:
    """A fault and its repair. `do` returns the result lines to show, if any."""

    about: str
    wrong: str
    deed: str
    do: Callable[[], tuple[str, ...] | None]


@dataclass(slots=True)
class _Work:
    """The part of a repair before the stores are opened. `check` raises if this process no longer owns the workspace.

    `last`: the last version; `is_rebuilt`: state.db was replaced. Removed files are `kept` in the folder `aside`
    (broken/TIME/ in the state folder), which is created on first use.
    """

    workspace: Workspace
    config: Config
    check: Callable[[], None]
    disk: Disk
    last: int = 0
    is_rebuilt: bool = False
    aside: str = ""
    kept: list[str] = field(default_factory=list)

    def jobs(self) -> Iterator[_Job]:
        """Yield the jobs; each is looked for after the ones before it are done."""
        yield from self._kinds_of_files()
        yield from self._permissions()
        if not self.workspace.database.is_symlink():
            yield from self._database()
        if self.is_rebuilt:  # no commit will settle files that swaps of MEMORY.md took out
            for path in displaced_files(self.workspace):
                wrong = f"{path} was left by a commit that was interrupted"
                deed = "it is kept aside: it may hold a save of yours"
                yield _Job("MEMORY.md", wrong, deed, partial(self._put_aside, path))
        if not self.workspace.document.is_symlink():
            yield from self._document()
        yield from self._derived()

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

    # Files and folders.

    def _kinds_of_files(self) -> Iterator[_Job]:
        """Find files in place of folders, and the reverse. A missing folder is created when the stores are opened."""
        scratch = self.workspace.scratch
        for folder in folders(self.workspace):
            if os.path.lexists(folder) and not folder.is_symlink() and not folder.is_dir():
                deed = "it is kept aside, and the folder is made"
                yield _Job("folders", f"{folder} is no folder", deed, partial(self._put_aside, folder))
        if os.path.lexists(scratch) and not scratch.is_symlink() and not scratch.is_file():
            deed = "it is kept aside; the next note makes the file"
            yield _Job("notes", f"{scratch} is no file", deed, partial(self._put_aside, scratch))

    def _permissions(self) -> Iterator[_Job]:
        """Find files that their owner cannot read or write, and a state folder that other users can enter."""
        state = self.workspace.state
        is_open, wanted = bool(_mode(state) & 0o077), dict[Path, int]()
        if _mode(state) & 0o777 != 0o700:
            wanted[state] = 0o700
        for path in (one for one in _ours(self.workspace) if not one.is_symlink()):
            least, mode = 0o700 if path.is_dir() else 0o600, _mode(path)
            if mode & least != least or (is_open and least == 0o600 and mode & 0o077):
                wanted[path] = least
        for path in (self.workspace.document, self.workspace.scratch):
            if path.is_file() and not path.is_symlink() and _mode(path) & 0o600 != 0o600:
                wanted[path] = _mode(path) | 0o600
        for path, mode in wanted.items():
            wrong, deed = f"{path} has the permissions {_mode(path):o}", f"they are {mode:o} again"
            yield _Job("permissions", wrong, deed, partial(_set_mode, path, mode))

    def _derived(self) -> Iterator[_Job]:
        """Find damaged checkpoints, which cost at most one answer that is paid for again."""
        path, deed = self.workspace.checkpoints / "dreams.db", "they go; an interrupted dream begins anew"
        if not path.is_symlink() and not path.parent.is_symlink() and (wrong := _wrong_with_database(path)):
            yield _Job("checkpoints", f"{path}: {wrong}", deed, partial(empty_folder, self.disk, path.parent))

    # state.db: the last sound copy replaces a damaged one; newer content comes from the files.

    def _database(self) -> Iterator[_Job]:
        path = self.workspace.database
        copies, sound = copies_of(path), list[Path]()
        inbox = NoteInbox(self.workspace, self.disk)  # these files imply a database that recorded what was consumed
        wrong = damage_of(path, expected=bool(copies or inbox.displaced() or inbox.rotated()))
        for copy in copies:  # read every row of a copy only if one is to be restored
            if not is_readable(copy) or (wrong and damage_of(copy, expected=True)):
                yield _Job("copies", f"{copy} is damaged", "it is kept aside", partial(self._put_aside, copy))
            else:
                sound.append(copy)
        if wrong:
            deed = "it is built anew of the notes and MEMORY.md"
            if sound:
                deed = f"the copy of {clock_time(copied_at(sound[0]), self.config.zone)} takes its place"
            job = partial(self._restore, next(iter(sound), None))
            yield _Job("state.db", f"state.db: {'; '.join(wrong)}", deed, job)
            if not self.is_rebuilt:  # a survey
                return
        if found_damaged(path):
            what, deed = "state.db was damaged when it was to be copied", "it is sound now, and will be copied"
            yield _Job("copies", what, deed, partial(clear_damaged, path, self.disk))
        with suppress(sqlite3.Error), open_unmigrated(path, "rw") as connection:
            self.last = Lineage(connection).last_version()

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

    # MEMORY.md: the last version replaces a damaged one, together with whole lines that its owner wrote since.

    def _document(self) -> Iterator[_Job]:
        path = self.workspace.document
        is_file = path.is_file() or not os.path.lexists(path)
        found, wanted = self.disk.read_optional(path) if is_file else b"", self._committed()
        wrong = "is no file" if not is_file else wrong_with(found, wanted)
        if not wrong or wanted is None:
            return
        text, is_read = _mended(found or b"", wanted)
        deed = f"version {self.last} takes its place"
        if is_read:
            deed = f"all that can be read stays, and what it lacks comes from version {self.last}"
        deed += "; what was found is kept aside" if found else ""
        yield _Job("MEMORY.md", f"MEMORY.md {wrong}", deed, partial(self._replace, text))

    def _committed(self) -> str | None:
        """Return the text of the last version, from a copy while state.db is damaged; None without one."""
        path = self.workspace.database
        for one in (path, *copies_of(path)):
            with suppress(sqlite3.Error, DreamdError, ValueError), open_unmigrated(one, "rw") as connection:
                row = connection.execute("SELECT text FROM versions ORDER BY number DESC LIMIT 1").fetchone()
                return unpacked(row["text"]) or None if row else None
        return None

    def _replace(self, text: str) -> None:
        path = self.workspace.document
        if path.is_file():
            self.disk.write_new(self._place(path), path.read_bytes())
        elif os.path.lexists(path):
            self._put_aside(path)
        self.check()
        self.disk.write_atomic(path, text.encode(), mode=0o644)


def _free(path: Path) -> Path:
    while os.path.lexists(path):
        path = path.with_name(f"{path.name}+")
    return path


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def _set_mode(path: Path, mode: int) -> None:
    with storage_errors(path):
        path.chmod(mode)


def _wrong_with_database(path: Path) -> str:
    """Return what is wrong with a database, or "" if it is sound or missing."""
    try:
        if os.path.lexists(path):
            with open_unmigrated(path) as connection:
                return broken_page(connection, "integrity_check")
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


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
