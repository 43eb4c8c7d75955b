"""Whatever is broken in a workspace is found, said and mended: no note and no line of MEMORY.md is lost."""

import itertools
import os
import random
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.journal.restore import restore
from daemon.upkeep.doctor import examine
from daemon.upkeep.repair import Repair
from daemon.workspace.checks import Finding, Level
from daemon.workspace.retention import copy_if_due
from daemon.workspace.status import status
from daemon.workspace.stores import open_exclusive, utc_now
from state.document.document import parse
from state.dream import Reason
from state.errors import StorageError
from state.scratch import Note
from state.stores.database.opening import open_database
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from tests.support import breaking
from tests.support.breaking import (
    BY_HAND,
    DAMAGE,
    NOTED,
    PENDING,
    SAID,
    WORDS_ONLY,
    Chance,
    about,
    assert_works,
    content,
    copied,
    found,
    lost,
    repaired,
)
from tests.support.copies import place_of
from tests.support.faults import Fault, FaultySystem, PowerCut
from tests.support.long_variants import spread, variants
from tests.support.notes import pending_notes
from tests.support.running import Caller


def files_of(workspace: Workspace) -> list[Path]:
    every = [workspace.document, *workspace.state.glob("inbox*.md")]
    return [*[workspace.database] * 6, *workspace.copies.glob("*.db"), workspace.checkpoints / "dreams.db", *every]


def assert_mended(workspace: Workspace, chance: Chance, what: object) -> None:
    """A repair loses nothing but what stood in state.db alone, leaves nothing broken, and the next finds nothing."""
    done = repaired(workspace)
    assert lost(workspace).notes == (), what
    assert [one for one in done.left if one.level is Level.PROBLEM] == [], what
    before = content(workspace)
    assert repaired(workspace).mends == (), what
    assert content(workspace) == before, what
    if done.kept:
        assert all((workspace.root / name).exists() for name in done.kept)
    assert_works(workspace)
    assert lost(workspace).said == (), what
    assert found(workspace, tuple(chance.sample(NOTED + SAID, 3))) == [], what


@pytest.mark.full
@pytest.mark.parametrize("seeds", variants(10, 1_400))
def test_damage_of_every_kind_to_any_files_loses_nothing_that_stands_elsewhere(
    origin: Workspace, tmp_path: Path, seeds: int
) -> None:
    for seed in range(seeds):
        chance = random.Random(seed)
        workspace, done = copied(origin, tmp_path / str(seed)), []
        for number in range(chance.choice((1, 1, 2, 3, 5))):
            path, damage = chance.choice(files_of(workspace)), DAMAGE[(seed + number) % len(DAMAGE)]
            if path.exists() and path.stat().st_size:
                damage(path, chance)
                done.append((damage.__name__, path.name))
        assert_mended(workspace, chance, (seed, done))


# ----------------------------------------------------------------------- cut off anywhere


def broken_everywhere(workspace: Workspace) -> None:
    os.truncate(workspace.database, workspace.database.stat().st_size // 2)
    workspace.document.write_bytes(bytes(300))
    NoteInbox(workspace).append(Note("The oars are new", utc_now()))
    with workspace.scratch.open("ab") as scratch:
        scratch.write(bytes(50) + b"\n")
    (workspace.checkpoints / "dreams.db").write_bytes(b"\xff" * 5_000)


@pytest.mark.full
@pytest.mark.parametrize("step", variants(14, 1))
def test_a_repair_that_is_cut_off_at_any_change_of_the_disk_is_done_by_the_next(
    origin: Workspace, tmp_path: Path, step: int
) -> None:
    killed = copied(origin, tmp_path / "killed")
    broken_everywhere(killed)
    for fail_at in itertools.count(0, step):
        workspace = copied(killed, tmp_path / f"at {fail_at}")
        fault = (Fault.CRASH, Fault.TORN_CRASH, Fault.ERROR)[fail_at // step % 3]
        system = FaultySystem(workspace.root, fail_at, fault)
        try:
            repaired(workspace, workspace.disk(system))
        except (PowerCut, StorageError):
            assert system.met
        repaired(workspace)
        gone = lost(workspace)
        assert (gone.notes, gone.said) == ((), ()), (fail_at, system.calls)
        assert repaired(workspace).mends == ()
        assert_works(workspace)
        if not system.met:
            break
    assert len(system.calls) > 20


Spoil = Callable[[Workspace], object]


# ------------------------------------------------------------- one thing after the other


def test_a_whole_workspace_is_left_as_it_is_and_the_exit_status_says_so(
    here: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    dreamd = Caller(capsys)
    before = content(here)
    assert repaired(here) == Repair()
    assert content(here) == before
    assert dreamd("doctor", here.root, "--repair").status == 3
    assert dreamd("doctor", here.root, "--repair", "--dry-run").status == 3
    assert dreamd("doctor", here.root, "--dry-run").status == 2


def row_changed(statement: str) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        with closing(open_database(workspace.database)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(statement)

    return spoil


def written(name: str, text: bytes) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        path = place_of(workspace, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)

    return spoil


def a_file(name: str) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        folder = place_of(workspace, name)
        folder.rename(workspace.root / "gone")
        folder.write_text("somebody's")

    return spoil


def examined(workspace: Workspace) -> list[Finding]:
    """What `dreamd doctor` finds."""
    opened = partial(open_exclusive, workspace, Config(), "test", embedding=WORDS_ONLY)
    return list(examine(workspace, Config, lambda: (), opened))


SPOILS: dict[str, tuple[str, Spoil]] = {
    "an index is missing": ("state.db", row_changed("DROP INDEX crystals_by_kind")),
    "an index is another one": (
        "state.db",
        row_changed(
            "UPDATE sqlite_schema SET sql = replace(sql, 'kind, key', 'key') WHERE name = 'crystals_by_kind'"
        ),
    ),
    "a foreign key leads nowhere": (
        "state.db",
        row_changed("UPDATE occurrences SET crystal = 4711 WHERE crystal = 3"),
    ),
    "a column holds what it cannot": (
        "state.db",
        row_changed("UPDATE crystals SET lifecycle = 'gone' WHERE key = 5"),
    ),
    "a text is not its id's": ("state.db", row_changed("UPDATE crystals SET text = text || '?' WHERE key = 7")),
    "the schema number is wrong": ("state.db", row_changed("PRAGMA user_version = 77")),
    "words": ("word index", row_changed("DELETE FROM words_docsize WHERE id < 9")),
    "checkpoints": ("checkpoints", written(".dreamd/checkpoints/dreams.db", b"\xff" * 9_000)),
    "MEMORY.md lacks sections": (
        "MEMORY.md",
        written("MEMORY.md", b"# Working Memory State\n\n## The Bond\n\n- tea\n"),
    ),
    "index is a file": ("folders", a_file(".dreamd/index")),
}


@pytest.mark.parametrize("name", spread(SPOILS, 5))
def test_what_is_broken_is_found_said_mended_and_kept(
    here: Workspace, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    topic, spoil = SPOILS[name]
    spoil(here)
    before = content(here)
    planned = Caller(capsys)("doctor", here.root, "--repair", "--dry-run")
    if topic != "word index":  # that shows when it is open
        assert f"broken   {topic}" in planned.out, planned
        assert content(here) == before
        told = [one for one in examined(here) if one.about == topic and one.level is not Level.OK]
        assert told != []
        assert any("run 'dreamd doctor --repair'" in one.advice for one in told), told
    if topic == "MEMORY.md":  # the status says it, and in the same words
        assert told[0].what in [one.what for one in status(here, Config(), utc_now()).problems]
    spoilt = here.document.read_bytes() if topic == "MEMORY.md" and here.document.is_file() else None
    done = repaired(here)
    assert topic in about(done), done
    for kept in map(Path, done.kept):
        assert stat.S_IMODE(kept.stat().st_mode) & 0o077 == 0
    assert spoilt is None or spoilt in [kept.read_bytes() for kept in map(Path, done.kept)]
    gone = lost(here)
    assert gone.said == ()
    assert gone.items == () or topic == "state.db"
    assert gone.notes == ()
    assert repaired(here).mends == ()
    assert_works(here)


def test_what_is_open_to_others_or_closed_to_its_owner_is_neither_afterwards(here: Workspace) -> None:
    here.state.chmod(0o755)
    here.inbox.chmod(0o640)
    here.checkpoints.chmod(0o500)
    here.document.chmod(0o444)
    done = repaired(here)
    assert (about(done), len(done.mends)) == ({"permissions"}, 4)
    places = (here.state, here.inbox, here.checkpoints, here.document)
    assert [stat.S_IMODE(path.stat().st_mode) for path in places] == [0o700, 0o600, 0o700, 0o644]
    assert repaired(here) == Repair()


@pytest.mark.parametrize("name", [".dreamd/state.db", "MEMORY.md"])
def test_a_link_in_the_place_of_a_file_is_said_and_not_followed(here: Workspace, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("somebody else's")
    path = place_of(here, name)
    path.unlink()
    path.symlink_to(outside)
    done = repaired(here)
    assert any(one.about in ("links", "MEMORY.md") and str(path) in one.what for one in done.left), done.left
    assert path.is_symlink()
    assert outside.read_text() == "somebody else's"
    assert stat.S_IMODE(outside.stat().st_mode) != 0o600


@pytest.mark.parametrize("spoilt", ["a heading", "a byte"])
def test_a_file_that_can_be_read_keeps_all_that_its_owner_wrote(here: Workspace, spoilt: str) -> None:
    rows = here.document.read_text().splitlines(keepends=True)
    at = next(number for number, row in enumerate(rows) if BY_HAND in row)
    rows[at] = rows[at].replace(BY_HAND, f"{BY_HAND}, or was until 1841")
    text = "".join(rows).replace("# Working Memory State\n", "# Working Memory State\n\nMy own words on top.\n", 1)
    text += "\n## Private\n\n- Nobody's business\n"
    if spoilt == "a heading":
        here.document.write_text(text.replace("## Emerging Skills", "## Emergent Skills"))
    else:
        here.document.write_bytes(text.encode() + "- The café is shut\n".encode("cp1252"))
    assert about(repaired(here)) == {"MEMORY.md"}
    mended = here.document.read_text()
    for mine in ("My own words on top.", f"{BY_HAND}, or was until 1841", "Nobody's business"):
        assert mine in mended
    assert ("- The café is shut" in mended) == (spoilt == "a byte")
    assert parse(mended).has_schema
    assert repaired(here) == Repair()


def test_a_note_that_a_restore_since_the_copy_made_pending_is_dreamt_of_again(here: Workspace) -> None:
    with open_exclusive(here, Config(), "a test", embedding=WORDS_ONLY) as store:
        copy_if_due(store, utc_now(), timedelta())
        restore(store, 1)
        again = {note.text for note in store.notes.each_pending()} - {*PENDING, breaking.UNREAD}
        assert again <= {*NOTED, breaking.LONG}
    here.database.write_bytes(b"no database")
    assert "state.db" in about(repaired(here))
    with open_exclusive(here, Config(), "a test", embedding=WORDS_ONLY) as store:
        assert again <= {note.text for note in store.notes.each_pending()}
        number = dream_now(store, Reason.MANUAL, Mode.AUTO).dream.number
        assert again & {crystal.text for crystal in store.crystals.get(store.crystals.dreamt_in(number))}


def test_a_note_that_a_repair_takes_in_is_known_as_one(here: Workspace) -> None:
    here.database.write_bytes(b"no database")
    repaired(here)
    with open_exclusive(here, Config(), "a test", embedding=WORDS_ONLY) as store:
        rows = {note.key: store.crystals.by_keys([note.crystal])[note.crystal].id for note in store.notes.pending()}
        assert rows
        for row, crystal in rows.items():
            assert row in [one.source.first_line for one in store.crystals.sources(crystal) if one.source]


@pytest.mark.full
def test_what_was_forgotten_stays_so_when_the_database_is_lost(
    here: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    dreamd = Caller(capsys)
    secret = "Zebras graze behind the old observatory"
    (here.root / "transcripts").mkdir(exist_ok=True)
    (here.root / "transcripts" / "talk.md").write_text(f"# Talk\n\n{secret}.\n")
    assert dreamd("ingest", here.root / "transcripts", "-w", here.root).status == 0
    assert dreamd("forget", secret, "--yes", "-w", here.root).status == 0
    for path in here.state.glob("state.db*"):
        path.unlink()
    assert dreamd("doctor", here.root, "--repair").status == 0
    assert "Zebras graze" not in dreamd("search", "zebras graze observatory", "-w", here.root).out


@pytest.mark.parametrize(
    "said",
    [
        "- Анна пьёт чай".encode("cp1251"),
        "- 東京に住んでいる".encode("shift_jis"),
        "- Ada likes coffee".encode("utf-16-le"),
        bytes(4_000),
    ],
    ids=["cp1251", "shift_jis", "utf-16", "NUL"],
)
def test_a_note_in_another_encoding_is_read_and_no_other_is_lost(here: Workspace, said: bytes) -> None:
    before = [note.text for note in pending_notes(here)]
    with here.scratch.open("ab") as log:
        log.write(said + b"\n- Ada likes tea\n")
    after = [note.text for note in pending_notes(here)]
    assert len(after) == len(before) + 1 + any(said)
    assert after[-1] == "Ada likes tea"
    assert "\0" not in "".join(after)
    assert repaired(here) == Repair()
