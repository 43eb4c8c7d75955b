"""Whatever becomes of files, the configuration and the place: one line says so, nothing is lost, and it is mended."""

import json
import os
import pwd
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from state.reading import length_given
from state.scratch import HEADER, decode, parse_notes
from state.stores.database.schema import FIRST_SCHEMA
from tests.support.copies import place_of
from tests.support.keeping import KNOWN, PENDING, copied, crystals, one_line, pending, refused, works_again
from tests.support.running import ROOT, Caller, Ended, process

NOISE = random.Random(7).randbytes(4_000) + b"\n"
MEANWHILE = "written meanwhile"

# ------------------------------------------------------------------ files that cannot be used

FOLDER = "a folder stands where a file should be; move it away"
OUTSIDE = "replace the link by the file itself"
NO_MEMORY = "is no MEMORY.md; move it away"
DAMAGED = "MEMORY.md are unharmed, run 'dreamd doctor'"
REPAIR = "run 'dreamd doctor --repair'"
Spoil = Callable[[Path], object]


def gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def a_folder(path: Path) -> None:
    gone(path)
    path.mkdir()


def a_file(path: Path) -> None:
    gone(path)
    path.touch()


def link_to(target: str) -> Spoil:
    def spoil(path: Path) -> None:
        gone(path)
        path.symlink_to(target)

    return spoil


def holding(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content)


def zeroed(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))


def noisy(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 2 * 4096))


def sql(*statements: str) -> Spoil:
    """In one file, which nobody has open."""

    def spoil(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in (*statements, "PRAGMA wal_checkpoint(TRUNCATE)"):
                connection.execute(statement)

    return spoil


def of_another_program(schema: int) -> Spoil:
    def spoil(path: Path) -> None:
        gone(path)
        sql("CREATE TABLE recipes (name TEXT)", f"PRAGMA user_version = {schema}")(path)

    return spoil


@dataclass(frozen=True, slots=True)
class Bad:
    """A file that is spoilt: which commands say what of it, and the doctor; it is repaired, or else put back."""

    file: str
    spoil: Spoil
    said: tuple[str, ...]
    doctor: str
    refuses: tuple[str, ...] = ("dream",)
    repair: bool = True


def memory(spoil: Spoil, said: str, *, repair: bool = True) -> Bad:
    return Bad("MEMORY.md", spoil, ("MEMORY.md", said), "problem  MEMORY.md  ", repair=repair)


def scratch(spoil: Spoil, said: str, *, repair: bool = True) -> Bad:
    refuses = ("dream", "search tea", "bootstrap")
    return Bad("memory/scratch.md", spoil, ("scratch.md", said), "problem  notes ", refuses, repair)


def database(spoil: Spoil, said: str = DAMAGED, doctor: str = REPAIR, *, repair: bool = True) -> Bad:
    return Bad(".dreamd/state.db", spoil, ("state.db: ", said), doctor, ("dream", "search tea", "history"), repair)


BAD = {
    "memory: folder": memory(a_folder, FOLDER),
    "memory: loop": memory(link_to("MEMORY.md"), "symbolic links", repair=False),
    "memory: link out": memory(link_to("/etc/hostname"), OUTSIDE, repair=False),
    "memory: NUL": memory(holding(b"# Working Memory State\n\0\0\n"), NO_MEMORY),
    "memory: not UTF-8": memory(holding(b"# Working Memory State\n\xff\n"), NO_MEMORY),
    "memory: UTF-16": memory(holding("# Working Memory State\n\n- tea\n".encode("utf-16")), NO_MEMORY),
    "log: folder": scratch(a_folder, FOLDER),
    "log: loop": scratch(link_to("scratch.md"), "symbolic links", repair=False),
    "log: link out": scratch(link_to("/etc/hostname"), OUTSIDE, repair=False),
    "genome: folder": Bad("GENOME.md", a_folder, ("GENOME.md", FOLDER), "", repair=False),
    "checkpoints: file": Bad(
        ".dreamd/checkpoints", a_file, ("checkpoints: a file stands where a folder should be; move it away",),
        "checkpoints is no folder", ("dream", "search tea"),
    ),
    "state.db: zeroed header": database(zeroed),
    "state.db: cut in half": database(lambda path: os.truncate(path, path.stat().st_size // 2)),
    "state.db: noise": database(noisy),
    "state.db: another program's": database(of_another_program(0)),
    "state.db: another program's of our schema": database(of_another_program(FIRST_SCHEMA)),
    "state.db: a folder": database(a_folder),
    "state.db: gone": database(gone, "run 'dreamd doctor'"),
    "state.db: of a later dreamd": database(
        sql("PRAGMA user_version = 99"), "written by a newer dreamd (schema 99", "upgrade", repair=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_named_costs_nothing_and_is_mended(
    dreamd: Caller, here: Path, bad: Bad
) -> None:
    path, document = place_of(open_workspace(here), bad.file), here / "MEMORY.md"
    good, text, outside = (
        path.is_file() and path.read_bytes(),
        document.read_bytes(),
        Path("/etc/hostname").read_bytes(),
    )
    bad.spoil(path)
    spoilt = path.is_file() and not path.is_symlink() and path.read_bytes()

    refused(dreamd, here, bad.refuses, *bad.said)
    assert dreamd("note", "-w", here, MEANWHILE).status == 0
    if bad.file == ".dreamd/state.db":  # at the start of a session all is there nevertheless
        shown = dreamd("bootstrap", here).out
        assert [one for one in (*KNOWN, PENDING, MEANWHILE) if one not in shown] == []
        assert document.read_bytes() == text
    if bad.doctor:
        examined = dreamd("doctor", here)
        assert (examined.status, examined.err) == (1, "")
        problems = [row for row in examined.out.splitlines() if row.startswith("problem")]
        assert [row for row in problems if bad.doctor in row], problems
        assert len(problems) == 1 or bad.file in ("memory/scratch.md", ".dreamd/checkpoints"), problems
        what, _, _ = problems[0].removeprefix(bad.doctor).strip().partition("; ")
        assert bad.file != "MEMORY.md" or what in dreamd("status", here).out
    assert not spoilt or path.read_bytes() == spoilt
    assert Path("/etc/hostname").read_bytes() == outside

    if bad.repair:
        assert dreamd("doctor", here, "--repair").status == 0
        assert dreamd("search", "tea", "-w", here).out.startswith(f"1. {KNOWN[0]}")
        assert set(KNOWN) <= crystals(here)
    else:
        gone(path)
        if good:
            path.write_bytes(good)
    works_again(dreamd, here, PENDING, MEANWHILE)
    versions = [one["number"] for one in dreamd("history", "-w", here, "--json").json["versions"]]
    assert versions[-2:] == [2, 1]
    assert len(versions) <= 3  # what can be read of a damaged MEMORY.md is an edit of its owner's


@pytest.mark.parametrize("name", ["index", "checkpoints"])
def test_a_folder_that_a_copy_left_out_is_made_again(dreamd: Caller, here: Path, name: str) -> None:
    folder = open_workspace(here).state / name
    gone(folder)
    works_again(dreamd, here, PENDING)
    assert folder.is_dir()


def test_a_folder_of_notes_that_is_missing_is_told_and_made_again(dreamd: Caller, here: Path) -> None:
    gone(here / "memory")
    examined = dreamd("doctor", here)
    assert (examined.status, f"warning  folders       {here / 'memory'} is missing" in examined.out) == (0, True)
    assert dreamd("note", "-w", here, MEANWHILE).status == 0
    assert pending(here) == sorted([PENDING, MEANWHILE])


def test_a_state_db_of_another_workspace_costs_no_line(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    other = copied(here, tmp_path / "other")
    (open_workspace(other).state / "state.db").replace(open_workspace(here).state / "state.db")
    works_again(dreamd, here, PENDING)


# ------------------------------------------------------------------ permissions


def unprivileged(*words: str | Path) -> Ended:
    """A real process that permissions bind: without the capabilities by which root reads everything."""
    return process(*words, before=("tests.support.forked:unprivileged", []))


def test_in_another_users_folder_no_change_of_modes_is_advised(tmp_path: Path) -> None:
    there = tmp_path if os.geteuid() == 0 else Path("/usr")
    if there == tmp_path:
        os.chown(there, 65534, 65534)
        there.chmod(0o755)
    owner = pwd.getpwuid(there.stat().st_uid).pw_name
    refused = unprivileged("init", there / "deep" / "project")
    one_line(refused, 1, "permission denied", f"{there} belongs to {owner}: take a folder of your own")
    assert "chmod" not in refused.err


def test_permissions_are_told_with_what_to_do_and_lose_nothing(dreamd: Caller, here: Path) -> None:
    document, scratch = here / "MEMORY.md", here / "memory" / "scratch.md"
    good = document.read_bytes()
    document.chmod(0)
    one_line(unprivileged("bootstrap", here), 1, str(document), "permission denied", "chmod")
    scratch.chmod(0o444)
    assert unprivileged("note", "written to the inbox", "-w", here).status == 0
    examined = unprivileged("doctor", here)
    assert examined.status == 1
    for path in (document, scratch):
        assert f"problem  permissions   {path} has the wrong permissions" in examined.out
    open_workspace(here).state.chmod(0o500)
    one_line(unprivileged("bootstrap", here), 1, str(open_workspace(here).state), "not writable", "chmod")
    one_line(unprivileged("dream", here), 1, str(open_workspace(here).state), "not writable", "chmod")

    open_workspace(here).state.chmod(0o700)
    scratch.chmod(0o600)
    document.chmod(0o644)
    assert document.read_bytes() == good
    assert pending(here) == [PENDING, "written to the inbox"]
    works_again(dreamd, here, PENDING)


# ------------------------------------------------------------------ what stands in them


@pytest.mark.full
def test_a_huge_memory_is_taken_in_and_left_as_it_was(dreamd: Caller, tmp_path: Path) -> None:
    row = "A line of a very long file about nothing in particular, number"
    huge = "# My notes\n\n" + "".join(f"{row} {number}\n" for number in range(20_000))
    (tmp_path / "agent").mkdir()
    document = tmp_path / "agent" / "MEMORY.md"
    document.write_text(huge)
    assert document.stat().st_size > 1_000_000
    ended = dreamd("init", document.parent, "--json")
    assert ended.status == 0
    assert ended.json["seed_crystals"] > 500
    assert document.read_text() == (document.parent / "MEMORY.md.seed-backup").read_text() == huge
    assert len(dreamd("bootstrap", document.parent).out) <= 8_001
    assert dreamd("status", document.parent, "--json").json["characters"] == len(huge)


@pytest.mark.full
def test_a_memory_far_over_its_budget_is_brought_down_to_it_and_every_line_is_still_found(
    dreamd: Caller, here: Path
) -> None:
    document = here / "MEMORY.md"
    places = ("harbour", "bridge", "castle", "river")
    lines = [f"Inventory entry {number} is kept in the {places[number % 4]} cellar" for number in range(160)]
    heading = "## Crystal Pointers"
    before, found, after = document.read_text().partition(heading)
    document.write_text(before + "".join(f"- {line}\n" for line in lines) + "\n" + found + after)
    assert len(document.read_text()) > 8_000
    assert dreamd("bootstrap", here).status == 0
    assert dreamd("dream", here).status == 0
    text, known = document.read_text(), crystals(here)
    assert len(dreamd("bootstrap", here).out) <= length_given(text) <= 8_000
    assert [line for line in lines if line not in text and line not in known] == []


STAMPED = "- [2026-03-12T14:30:00Z] (importance: 0.8)"


# What people, programs and torn writes leave in a log.
ODD = b"\n".join((
    NOISE,
    f"- [2026-03-12T14:\n- [2026-13-45T99:00:00Z] (importance: 9) x\n{STAMPED[:-6]}".encode(),
    b"- [9999-12-31T23:59:59-10:00] too late\n- [0001-01-01T00:00:00+10:00] too early",
    f"{STAMPED} bell \a escape \x1b[2J NUL \0 \u202e turned\u2028 end".encode(),
    f"{STAMPED} one\n  more of it\n- two\n".replace("\n", "\r\n").encode(),
    b"# One\n## Two\n### Three",
    *(b"- entry %d of many" % number for number in range(60)),
    b"",
))  # fmt: skip
LONG = f"{HEADER}\n\n{STAMPED} {'lorem ipsum ' * 90_000}\n{STAMPED} after it\n".encode()


@pytest.mark.parametrize("content", [ODD, pytest.param(LONG, marks=pytest.mark.full)], ids=["odd", "1 MB"])
def test_whatever_stands_in_the_log_is_a_note_and_becomes_a_crystal(
    dreamd: Caller, here: Path, content: bytes
) -> None:
    (here / "memory" / "scratch.md").write_bytes(content)
    expected = {note.text for note in parse_notes(decode(content), utc_now())}
    assert expected
    assert dreamd("bootstrap", here).status == 0
    ended = dreamd("dream", here)
    assert ended.status == 0, ended.err
    assert expected - crystals(here) == set()
    assert pending(here) == []
    assert [note for note in KNOWN if note not in (here / "MEMORY.md").read_text()] == []


def test_a_log_of_twenty_thousand_lines_is_read_and_cut_to_what_an_agent_can_take(dreamd: Caller, here: Path) -> None:
    (here / "memory" / "scratch.md").write_text("".join(f"{STAMPED} entry {number}\n" for number in range(20_000)))
    pending = dreamd("status", here, "--json").json["pending"]
    assert (pending["notes"], pending["more"]) == (1_000, True)
    ready = dreamd("bootstrap", here, "--json").json
    assert len(ready["text"]) < 16_000
    assert 0 < ready["left_out"] < 20_000
    assert ready["more"]


def test_a_log_without_notes_is_nothing_to_do(dreamd: Caller, here: Path) -> None:
    assert dreamd("dream", here).status == 0
    (here / "memory" / "scratch.md").write_text(f"{HEADER}\n\n---\n\n")
    one_line(dreamd("dream", here), 3, "nothing new")


def said(text: str) -> str:
    return json.dumps({"role": "user", "content": text}) + "\n"


def test_a_broken_line_of_a_transcript_is_named_and_the_lines_about_it_are_read(dreamd: Caller, here: Path) -> None:
    folder = here / "transcripts"
    folder.mkdir()
    (folder / "broken.jsonl").write_text(said("My parrot is called Admiral") + "{broken\n" + said("We sail in June"))
    (folder / "noise.md").write_bytes(NOISE.replace(b"\n", b"\0"))
    (folder / "nothing.jsonl").mkdir()
    (folder / "nowhere.jsonl").symlink_to("/nonexistent")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    ended = dreamd("dream", here)
    assert ended.status == 0
    assert f"notice: {folder / 'broken.jsonl'}:2: the record is not JSON" in ended.err
    assert f"notice: {folder / 'noise.md'}:1: a NUL byte" in ended.err
    assert {"My parrot is called Admiral", "We sail in June", PENDING} <= crystals(here)


def test_a_transcript_that_may_not_be_read_is_named_with_what_to_do(here: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Nobody may read this\n")
    (tmp_path / "mine.txt").chmod(0)
    ended = unprivileged("ingest", tmp_path / "mine.txt", "-w", here)
    assert ended.status == 1
    (problem,) = [row for row in ended.err.splitlines() if row.startswith("problem: ")]
    assert problem == f"problem: {tmp_path / 'mine.txt'} cannot be read (Permission denied); check its permissions"


@pytest.mark.parametrize(
    "content", [NOISE, b'{"total_earnings_usdc": "lots"}', b"[" * 100_000], ids=["noise", "type", "deep"]
)
def test_a_feed_that_cannot_be_read_is_skipped_and_named(dreamd: Caller, here: Path, content: bytes) -> None:
    (here / "memory" / "economics.json").write_bytes(content)
    ended = dreamd("dream", here)
    assert ended.status == 0
    assert "notice: memory/economics.json is skipped: " in ended.err
    assert PENDING in (here / "MEMORY.md").read_text()


def test_a_genome_that_is_no_text_stops_no_dream(dreamd: Caller, here: Path) -> None:
    (here / "GENOME.md").write_bytes(NOISE)
    works_again(dreamd, here, PENDING)


def test_a_clock_that_was_ahead_stops_nothing(dreamd: Caller, here: Path) -> None:
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        for rows in ("versions SET at", "dreams SET started_at", "feelings SET at", "crystals SET created_at"):
            store.connection.execute(f"UPDATE {rows} = '2999-01-01T00:00:00.000000+00:00'")
    with (here / "memory" / "scratch.md").open("a") as scratch:
        scratch.write("- [2998-12-31T23:59:59Z] (importance: 0.8) Written while the clock was ahead\n")
    for path in (here / "MEMORY.md", here / "memory" / "scratch.md"):
        os.utime(path, (32_000_000_000, 32_000_000_000))
    for command in ("status", "bootstrap", "mood", "feel error", "search tea", "history", "doctor"):
        ended = dreamd(*command.split(), "-w", here)
        assert ended.status == 0, ended
    hits = dreamd("search", "tea", "-w", here, "--json").json["hits"]
    assert all(hit["age_days"] >= 0 for hit in hits)
    works_again(dreamd, here, PENDING, "Written while the clock was ahead")


# -------------------------------------------------------------------- the lock

HOLD = """
import sys, time
from pathlib import Path
from daemon.workspace.stores import open_exclusive
from daemon.config.settings import Config
from daemon.workspace.adoption import open_workspace
with open_exclusive(open_workspace(Path(sys.argv[1])), Config(), "dreamd dream"):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def holder(here: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(here)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_holder_that_lives_is_named_and_one_that_is_dead_is_none(
    dreamd: Caller, here: Path, holder: subprocess.Popen[bytes]
) -> None:
    for command in ("feel reward", "restore 1"):
        one_line(
            dreamd(*command.split(), "-w", here), 5, f"process {holder.pid} ('dreamd dream' on ", f"kill {holder.pid}"
        )
    assert dreamd("note", "-w", here, "written meanwhile").status == 0
    holder.kill()
    holder.wait()
    assert (open_workspace(here).state / "lock").read_bytes() != b""
    works_again(dreamd, here, PENDING, "written meanwhile")


# ------------------------------------------------- configuration and environment


OF_A_BOOTSTRAP_TOO = (b"- dream\n- limits\n", b"dream: \xff\n", b"secrets: {allow: 7}\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"- dream\n- limits\n", ("holds list, not sections",)),
        (b"just a text\n", ("holds str, not sections",)),
        (b"dream: \xff\n", ("make it a readable text file",)),
        (b"dream: !!python/object/apply:os.system [id]\n", ("line 1", "not YAML")),
        (b"dream:\n\tmode: auto\n", ("line 2", "not YAML")),
        (b"dream: often\n", ("dream is 'often'",)),
        (b"limits: {usd_per_day: .nan}\n", ("limits.usd_per_day is nan",)),
        (b"secrets: {allow: 7}\n", ("secrets.allow is ",)),
        (b"sources: {transcripts: ['/etc/*']}\n", ("sources.transcripts", "'/etc/*'", "inside the workspace")),
        (b"sources: {transcripts: ['../*']}\n", ("sources.transcripts", "'../*'", "inside the workspace")),
        (b"sources: {transcripts: ['']}\n", ("sources.transcripts", "inside the workspace")),
        (b"dreams:\n  mode: auto\n", ("there is no key 'dreams'",)),
        (b"dream:\n  moode: auto\n", ("there is no key 'dream.moode'",)),
        (b"dream: " + b"[" * 5_000 + b"]" * 5_000, ("nested too deep",)),
        (b"dream: {mode: 2026-13-45}\n", ("month",)),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_a_usage_error(
    dreamd: Caller, here: Path, tmp_path: Path, content: bytes, words: tuple[str, ...]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    for command in ("dream", "bootstrap") if content in OF_A_BOOTSTRAP_TOO else ("dream",):
        ended = dreamd(command, here, "--config", file)
        one_line(ended, 2, *words)
        assert str(file) in ended.err or b"sources:" in content  # those are looked at when they are used
    assert pending(here) == [PENDING]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DREAMD_DREAM__ASK", "never", "DREAMD_DREAM__ASK: dream.ask is 'never'"),
        ("DREAMD_DREAM__CONTEXT_WINDOW", "", "DREAMD_DREAM__CONTEXT_WINDOW: dream.context_window is None"),
        ("DREAMD_DREAM__MIN_CHUNKS", "many", "dream.min_chunks is 'many'"),
        ("DREAMD_LIMITS__USD_PER_DAY", "-1", "limits.usd_per_day is -1"),
        ("DREAMD_DREAM", "5", "DREAMD_DREAM: dream is 5"),
        ("DREAMD_DREEM__MODE", "auto", "there is no key 'dreem'"),
        ("DREAMD_CONFIG", "/nowhere.yaml", "/nowhere.yaml: no such file"),
        ("DREAMD_CONFIG", "/etc", "/etc: no such file"),
        ("DREAMD_WORKSPACE", "/nowhere", "/nowhere does not exist"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_a_usage_error_that_names_it(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv("DREAMD_WORKSPACE", str(here))
    monkeypatch.setenv(variable, value)
    one_line(dreamd("status"), 2, said)


def test_without_a_place_for_the_model_the_search_is_by_words_and_says_so(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    found = dreamd("search", "tea", "-w", here)
    assert found.status == 0
    assert found.out.startswith(f"1. {KNOWN[0]}")
    assert "search is by words only" in found.err
    ended = dreamd("dream", here)
    assert ended.status == 0
    assert ended.err.count("search is by words only") == 1
    assert PENDING in (here / "MEMORY.md").read_text()


def test_without_a_home_everything_works(dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    works_again(dreamd, here, PENDING)
