"""Notes: every entry of the inbox and of scratch.md becomes one row, whatever happens to the files meanwhile."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.ingest import notes as ingest
from daemon.ingest.notes import absorb_notes
from daemon.journal.restore import restore
from daemon.workspace.retention import copy_if_due
from daemon.workspace.stores import Store, utc_now
from state.errors import StorageError, UsageError
from state.scratch import HEADER, MAX_NOTE_BYTES, Note
from state.stores.database.connection import open_unmigrated
from state.stores.database.copies import copies_of
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.inbox import HEAD, NoteInbox
from state.stores.history.notes import Notes
from tests.support.committing import opened
from tests.support.faults import FaultySystem, images
from tests.support.folders import PLACE
from tests.support.long_variants import examples
from tests.support.notes import AT, EMPTY_MEMORY, consumed, noted, pending, pending_notes, shown_notes, taken


@dataclass
class Life:
    """A workspace, what was written in it, and what must be found of that."""

    workspace: Workspace
    store: Store
    places: int = 0
    number: int = 0
    acknowledged: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)  # by `>>`, and maybe gone with its file before it was read
    held: list[tuple[TextIO, str, str]] = field(default_factory=list)  # open files, the notes, what they lack yet
    consumed_at: dict[int, set[int]] = field(default_factory=lambda: {0: set()})

    def text(self) -> str:
        """A text that was never written before; some have a second line."""
        self.number += 1
        return f"note {self.number} ends." + ("\nand goes on." if self.number % 5 == 0 else "")

    def rows(self) -> Counter[str]:
        query = "SELECT text FROM notes JOIN crystals ON crystals.key = notes.crystal"
        return Counter(row["text"] for row in self.store.connection.execute(query))

    def consumed_keys(self) -> set[int]:
        query = "SELECT key FROM notes WHERE consumed_in IS NOT NULL"
        return {row["key"] for row in self.store.connection.execute(query)}

    def loosen(self) -> None:
        """A person or git is about to change scratch.md: what was read nowhere yet may go with it."""
        known = self.rows()
        self.loose += [text for text in self.plain if text not in known]
        self.plain = [text for text in self.plain if text in known]

    def finish(self, *, everywhere: bool = False) -> None:
        """Have the entries ended that somebody is writing into scratch.md, or into a file that was it."""
        scratch = self.workspace.scratch
        for file, text, rest in list(self.held):
            status = os.fstat(file.fileno())
            if everywhere or (scratch.exists() and os.path.samestat(status, scratch.stat())):
                if not status.st_nlink:  # the file is gone, and what is written there with it
                    self.loosen()
                file.write(rest)
                file.close()
                self.held.remove((file, text, rest))


Act = Callable[[Life], None]


def entry(text: str) -> str:
    return "- " + text.replace("\n", "\n  ")


def note(life: Life) -> None:
    life.finish()
    text = life.text()
    life.store.notes.inbox.append(Note(text, utc_now()))
    life.acknowledged.append(text)


def plain(*, newline: bool) -> Act:
    """A plain `>>`, of a line with its end, or of one that the next writer has to end."""

    def act(life: Life) -> None:
        text, scratch = life.text(), life.workspace.scratch
        scratch.parent.mkdir(exist_ok=True)
        life.finish()
        is_open_line = scratch.exists() and not scratch.read_bytes().endswith(b"\n")
        with scratch.open("a") as file:
            file.write("\n" * is_open_line + entry(text) + "\n" * newline)
        life.plain.append(text)

    return act


def hold(share: float) -> Act:
    """Part of an entry, through a descriptor that stays open."""

    def act(life: Life) -> None:
        text = life.text()
        whole = f"\n{entry(text)}\n"
        hold_entry(life, text, whole, int(share * len(whole)))

    return act


def hold_stamped(life: Life) -> None:
    """Part of an entry as dreamd writes it, which ends in its importance."""
    text = life.text()
    whole = f"\n- [2026-03-12T14:30:00Z] (importance: 0.9) {text}\n"
    cut = whole.index("0.9") + 1
    hold_entry(life, text, whole, cut)
    life.loose.append(whole[:cut])  # what is read of it until it ends


def hold_entry(life: Life, text: str, whole: str, cut: int) -> None:
    scratch = life.workspace.scratch
    scratch.parent.mkdir(exist_ok=True)
    life.finish()
    file = scratch.open("a")
    file.write(whole[:cut])
    file.flush()
    life.held.append((file, text, whole[cut:]))
    life.plain.append(text)


def let_go(life: Life) -> None:
    """The rest of it, wherever that file is now."""
    life.finish(everywhere=True)


def quiet(life: Life) -> None:
    for path in life.store.notes.inbox.files():
        status = path.stat()
        os.utime(path, (status.st_atime, status.st_mtime - 2))


def take(size: int) -> Act:
    """A batch of this size."""

    def act(life: Life) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ingest, "BATCH", size)
            absorb_notes(life.store, utc_now(), 1)

    return act


def commit(most: int) -> Act:
    def act(life: Life) -> None:
        number = consumed(life.store, most)
        life.consumed_at[number] = life.consumed_keys()
        assert_shown(life, exactly=True)

    return act


def restored(share: float) -> Act:
    """An older version again: what is pending and consumed is as it was then."""

    def act(life: Life) -> None:
        let_go(life)
        number = sorted(life.consumed_at)[int(share * (len(life.consumed_at) - 1))]
        if life.store.lineage.last_version():
            done = restore(life.store, number)
            assert life.consumed_keys() == life.consumed_at[number]
            life.consumed_at[done.number] = life.consumed_keys()
            assert_shown(life, exactly=True)

    return act


def render(life: Life) -> None:
    life.store.memory.show_notes(anew=True)
    assert_shown(life, exactly=True)


def rotate(life: Life) -> None:
    copy_if_due(life.store, utc_now(), timedelta())


def deleted(life: Life) -> None:
    life.loosen()
    life.workspace.scratch.unlink(missing_ok=True)


def cleaned(life: Life) -> None:
    """`rm -rf memory`, or `git clean -fdx`."""
    life.loosen()
    shutil.rmtree(life.workspace.scratch.parent, ignore_errors=True)


def emptied(life: Life) -> None:
    life.loosen()
    if life.workspace.scratch.exists():
        os.truncate(life.workspace.scratch, 0)


def edited(*, in_place: bool) -> Act:
    """A person puts a line at the top, with an editor that writes in place or one that renames."""

    def act(life: Life) -> None:
        text, scratch = life.text(), life.workspace.scratch
        if not scratch.exists():
            return
        life.finish()
        content = scratch.read_text(encoding="utf-8").removeprefix(HEAD.decode())
        other = scratch if in_place else scratch.with_name("scratch.md~")
        other.write_text(f"{HEADER}\n\n{entry(text)}\n{content}", encoding="utf-8")
        other.replace(scratch)
        life.plain.append(text)

    return act


def replaced(life: Life) -> None:
    """Another file takes its name."""
    life.loosen()
    text, scratch = life.text(), life.workspace.scratch
    scratch.parent.mkdir(exist_ok=True)
    other = scratch.with_name("other")
    other.write_text(f"{entry(text)}\n", encoding="utf-8")
    other.replace(scratch)
    life.plain.append(text)


def moved(how: Callable[[Path, Path], object]) -> Act:
    """The folder is copied, or renamed, while nobody has a file open."""

    def act(life: Life) -> None:
        before = life.workspace.root
        life.places += 1
        life.workspace = contained(before.with_name(f"place {life.places}"))
        how(before, life.workspace.root)

    return act


def copy(source: Path, target: Path) -> None:
    """As `cp -r` does, which keeps no times."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)


MOVES = [moved(copy), moved(Path.rename)]
ACTS = st.one_of(
    st.sampled_from([note, plain(newline=True), plain(newline=False), note, plain(newline=True)]),
    st.builds(hold, st.floats(0, 1)),
    st.sampled_from([let_go, quiet, render, rotate]),
    st.builds(take, st.integers(1, 4)),
    st.builds(commit, st.integers(0, 4)),
    st.builds(restored, st.floats(0, 1)),
    st.sampled_from([deleted, cleaned, emptied, replaced, edited(in_place=True), edited(in_place=False)]),
    st.sampled_from(MOVES),
)


def assert_shown(life: Life, *, exactly: bool) -> None:
    """scratch.md shows what is pending, as soon as all that came is in rows."""
    if next(life.store.notes.each_unread(), None):
        return
    pending, shown = [one.note.text for one in life.store.notes.pending()], shown_notes(life.workspace)
    if exactly:
        assert shown == pending
    else:
        assert set(pending) <= set(shown)


def assert_each_once(life: Life) -> None:
    found = life.rows() + Counter(note.text for note in life.store.notes.each_unread())
    unfinished = {text for _, text, _ in life.held}
    assert {text: found[text] for text in life.acknowledged} == dict.fromkeys(life.acknowledged, 1)
    surely = [text for text in life.plain if text not in unfinished]
    assert {text: found[text] for text in surely} == dict.fromkeys(surely, 1)
    said = "\n".join([*life.acknowledged, *life.plain, *life.loose])
    assert [text for text in found if found[text] > 1 or text not in said] == []


def assert_counted(life: Life) -> None:
    notes = life.store.notes
    pending = list(notes.each_pending())
    count, newest = notes.count(), notes.newest()
    assert (count.notes, count.more) == (len(pending), False)
    assert count.characters == sum(len(note.text) for note in pending)
    assert count.oldest == min((note.at for note in pending), default=None)
    assert ([note.text for note in newest.notes], newest.more) == ([note.text for note in pending], False)
    assert notes.count(2).more == (len(pending) > 2)
    few = notes.newest(60)
    assert few.more or len(few.notes) == len(pending)
    assert {note.text for note in few.notes} <= {note.text for note in pending}


def live(life: Life, acts: list[Act]) -> None:
    """Do these acts, each of which leaves every note in one place."""
    while acts:
        with opened(life.workspace) as life.store:
            while acts and acts[0] not in MOVES:
                acts.pop(0)(life)
                assert_each_once(life)
                assert_counted(life)
            let_go(life)
        if acts:
            acts.pop(0)(life)


def end(life: Life) -> None:
    """All that came is in rows, once, and is consumed by the next version."""
    with opened(life.workspace) as life.store:
        quiet(life)
        absorb_notes(life.store, utc_now(), most=None)
        rows = life.rows()
        surely = [*life.acknowledged, *life.plain]
        assert {text: rows[text] for text in surely} == dict.fromkeys(surely, 1)
        assert tuple(life.store.notes.each_unread()) == ()
        assert_shown(life, exactly=False)
        before = life.consumed_keys()
        consumed(life.store)
        assert life.store.notes.pending() == []
        assert before <= life.consumed_keys()
        assert shown_notes(life.workspace) == []
        absorb_notes(life.store, utc_now(), most=None)
        assert life.rows() == rows


@examples(150)
@given(st.lists(ACTS, max_size=16))
# What is rare: emptied before it is read, and when it is in rows; noted in a folder that was deleted;
@example([note, emptied])
@example([note, take(1), emptied])
@example([note, take(1), cleaned, note])
# written anew before a line has its end; a commit soon after another; edited while it shows what is consumed;
@example([plain(newline=False), render])
@example([note, plain(newline=True), take(9), commit(1), note, commit(1)])
@example([plain(newline=True), take(1), plain(newline=True), commit(4), edited(in_place=True)])
# ended when its beginning is consumed, or at another second; cut off within its stamp; copied and renamed.
@example([hold(0.6), quiet, take(1), commit(3), let_go])
@example([hold(0.5), quiet, take(1), note, take(2), commit(1)])
@example([hold_stamped, quiet, take(1), let_go, take(2), commit(1)])
@example([note, plain(newline=True), take(3), *MOVES, note, commit(3)])
def test_whatever_befalls_the_files_every_entry_becomes_one_row(acts: list[Act]) -> None:
    """Do these acts in a new workspace, and look after each and at the end."""
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        workspace = init_workspace(contained(Path(folder) / "agent"))
        workspace.document.write_text(EMPTY_MEMORY, encoding="utf-8")
        with opened(workspace) as store:
            life = Life(workspace, store)
        try:
            live(life, list(acts))
            end(life)
        finally:
            for file, *_ in life.held:
                file.close()


# ------------------------------------------------------------------------------- what is noted


@pytest.mark.parametrize("text", ["", " \n\t", "x" * (MAX_NOTE_BYTES + 1), "é" * (MAX_NOTE_BYTES // 2 + 1)])
def test_a_note_that_is_empty_or_too_long_is_refused(store: Store, text: str) -> None:
    with pytest.raises(UsageError, match="note"):
        noted(store, text)
    assert store.notes.inbox.files() == []


def test_where_the_state_may_not_be_written_a_note_goes_to_scratch_durably(tmp_path: Path) -> None:
    agent = init_workspace(contained(tmp_path / "agent"))

    class Sandbox(FaultySystem):
        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path.is_relative_to(agent.state):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return super().open(path, flags, mode)

    system = Sandbox(agent.root)
    inbox = NoteInbox(agent, agent.disk(system))
    inbox.append(Note("tea", AT))
    inbox.append(Note("milk", AT))
    assert not agent.inbox.exists()
    for image in images(system):
        assert [note.text for note in pending_notes(contained(image))] == ["tea", "milk"]
    with opened(agent) as store:
        assert taken(store) == ["tea", "milk"]
        store.memory.show_notes(anew=True)
    shutil.rmtree(agent.scratch.parent)  # by now it is in the user's own folder as well
    agent.database.unlink()
    assert [note.text for note in pending_notes(agent)] == ["tea", "milk"]


def test_a_scratch_that_cannot_be_written_keeps_nobody_from_noting(store: Store) -> None:
    store.workspace.scratch.mkdir()
    noted(store, "tea")
    store.workspace.scratch.rmdir()
    assert taken(store) == ["tea"]
    assert shown_notes(store.workspace) == ["tea"]


def test_a_log_that_leads_out_of_the_workspace_is_not_followed(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("- a\n", encoding="utf-8")
    store.workspace.scratch.symlink_to(outside)
    noted(store, "tea")
    with pytest.raises(StorageError, match="outside"):
        list(store.notes.each_pending())
    assert outside.read_text(encoding="utf-8") == "- a\n"
    store.workspace.scratch.unlink()
    assert taken(store) == ["tea"]


# ------------------------------------------------------------------------------- late, twice, unfinished


@pytest.mark.usefixtures("platform")
def test_what_was_scratch_is_swept_when_it_is_old_read_and_closed(store: Store) -> None:
    script = "import sys; f = open(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(store.workspace.scratch)]
    noted(store, "tea")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(2):
            taken(store)
            consumed(store)
            noted(store, "milk")
        assert store.notes.sweep(utc_now()) == 0
        assert store.notes.sweep(utc_now() + timedelta(hours=2)) == 0
        writer.communicate()
    assert store.notes.sweep(utc_now() + timedelta(hours=2)) == 1
    assert list(store.notes.inbox.displaced()) == [2]  # a repair looks for it
    noted(store, "bread")
    taken(store)
    consumed(store)
    numbers = {row["digest"].partition(".")[2] for row in store.connection.execute("SELECT digest FROM marks")}
    assert numbers == {"", "2", "3"}  # what is known of a file goes with it


def test_an_inbox_is_kept_until_every_copy_has_its_notes(store: Store) -> None:
    for text in ("tea", "milk", "salt", "bread", "cheese"):
        noted(store, text)
        taken(store)
        copy_if_due(store, utc_now(), timedelta())
        oldest = copies_of(store.workspace.database)[-1]
        with open_unmigrated(oldest) as copy:
            rows = copy.execute("SELECT text FROM notes JOIN crystals ON crystals.key = notes.crystal")
            covered = {row["text"] for row in rows}
        files = "".join(path.read_text() for path in store.notes.inbox.files() if store.notes.inbox.is_inbox(path))
        assert all(one in covered or one in files for one in pending(store))
    assert len(store.notes.inbox.rotated()) < 5


# ------------------------------------------------------------------------------- long logs


def test_a_long_log_is_counted_up_to_a_thousand_and_shown_from_its_end(store: Store) -> None:
    store.workspace.scratch.write_text("".join(f"- note {n}\n  and more\n" for n in range(30_000)))
    count, newest = store.notes.count(), store.notes.newest(1_000)
    assert (str(count), count.notes) == ("1,000+", 1_000)
    assert newest.more
    numbers = [int(note.text.split()[1]) for note in newest.notes]
    assert numbers == list(range(numbers[0], 30_000))
    assert 20 < len(numbers) < 60


def test_a_note_that_becomes_a_row_while_notes_are_counted_counts_once(store: Store) -> None:
    noted(store, "the first note")
    assert taken(store) == ["the first note"]
    noted(store, "the second note")

    class TakenMeanwhile(NoteInbox):
        def files(self) -> list[Path]:
            taken(store)
            return super().files()

    with open_unmigrated(store.workspace.database) as connection:
        assert Notes(TakenMeanwhile(store.workspace), connection).count().notes == 2
        assert Notes(store.notes.inbox, connection).count().notes == 2


def test_what_is_in_rows_is_not_read_again(store: Store) -> None:
    """The inbox too is read on at its last note, though scratch.md, which is read first, has told all of them."""
    for number in range(20):
        noted(store, f"note {number} of the garden")
        taken(store)
    size = store.workspace.inbox.stat().st_size
    starts = store.connection.execute("SELECT start FROM marks WHERE end = ?", (size,)).fetchall()
    assert [size - row["start"] < 200 for row in starts] == [True]


def test_a_note_that_is_there_already_and_grows_is_another_one(store: Store) -> None:
    scratch = store.workspace.scratch
    scratch.write_text("- [2026-11-02T09:00:00Z] the gate\n")
    assert taken(store) == ["the gate"]
    with scratch.open("a") as file:
        file.write("- [2026-11-02T09:00:00Z] the gate")
    assert taken(store) == ["the gate"]
    with scratch.open("a") as file:
        file.write(" is green\n")
    assert taken(store) == ["the gate", "the gate is green"]


def peak_of_taking_in(folder: Path, lines: int) -> int:
    """The most memory, in bytes, that a daemon holds at once that takes notes of a long log in, and shows them."""
    workspace = init_workspace(contained(folder))
    with workspace.scratch.open("w", encoding="utf-8") as file:
        file.writelines(f"- note {number} is about the garden of house {number}\n" for number in range(lines))
    with opened(workspace) as store:
        tracemalloc.start()
        for _ in range(2):  # a thousand each
            absorb_notes(store, utc_now())
            store.notes.count()
            store.notes.newest(10_000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert pending(store) == [f"note {n} is about the garden of house {n}" for n in range(2_000)]
    return peak


@pytest.mark.full
@pytest.mark.timeout(900)
def test_of_a_million_lines_no_more_is_held_and_read_at_once_than_of_a_few_thousand(tmp_path: Path) -> None:
    peaks, seconds = list[int](), list[float]()
    for lines in (2_500, 1_000_000):
        began = time.monotonic()
        peaks.append(peak_of_taking_in(tmp_path / f"{lines}", lines))
        seconds.append(time.monotonic() - began)
    assert peaks[1] < 1.2 * peaks[0]  # the log itself has 400 times as much
    assert seconds[1] < 3 * seconds[0]
