"""Whatever stands in the files that people and agents write: one line says so, and nothing is lost."""

import json
import os
import pwd
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.ingest.transcripts import absorb_transcripts
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from state.reading import GREETING
from state.scratch import HEADER, decode, parse_notes
from tests.support.keeping import KNOWN, PENDING, crystals, one_line, pending, refused, works_again
from tests.support.running import Caller, Ended, process

NOISE = random.Random(7).randbytes(4_000) + b"\n"


def unprivileged(*words: str | Path) -> Ended:
    """A real process that permissions bind: without the capabilities by which root reads everything."""
    return process(*words, before=("tests.support.forked:unprivileged", []))


# ------------------------------------------------------------------ MEMORY.md

OUTSIDE = "replace the link by the file itself"
NO_MEMORY = "is no MEMORY.md; move it away"


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to(target: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return spoil


def holding(content: bytes) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.write_bytes(content)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (folder_instead, "a folder stands where a file should be; move it away"),
        (link_to("MEMORY.md"), "symbolic links"),
        (link_to("/etc/hostname"), OUTSIDE),
        (holding(b"# Working Memory State\n\0\0\n"), NO_MEMORY),
        (holding(b"# Working Memory State\n\xff\n"), NO_MEMORY),
        (holding("# Working Memory State\n\n- tea\n".encode("utf-16")), NO_MEMORY),
    ],
    ids=["folder", "loop", "link out", "NUL", "not UTF-8", "UTF-16"],
)
def test_a_memory_that_cannot_be_read_stops_the_dream_and_nothing_else(
    dreamd: Caller, here: Path, spoil: Callable[[Path], None], said: str
) -> None:
    document = here / "MEMORY.md"
    good = document.read_bytes()
    spoil(document)
    spoilt = None if document.is_dir() or document.is_symlink() else document.read_bytes()

    one_line(dreamd("dream", here), 1, str(document), said)
    assert dreamd("note", "-w", here, "written meanwhile").status == 0
    assert pending(here) == [PENDING, "written meanwhile"]
    assert dreamd("status", here).status == 0
    examined = dreamd("doctor", here)
    assert (examined.status, examined.err) == (1, "")
    assert [row[:20] for row in examined.out.splitlines() if row.startswith("problem")] == ["problem  MEMORY.md  "]
    assert "vector index" in examined.out
    assert spoilt is None or document.read_bytes() == spoilt

    document.rmdir() if document.is_dir() else document.unlink()
    document.write_bytes(good)
    works_again(dreamd, here, PENDING, "written meanwhile")


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
    for name in ("MEMORY.md ", "notes     "):
        assert f"problem  {name}" in examined.out
    open_workspace(here).state.chmod(0o500)
    one_line(unprivileged("bootstrap", here), 1, str(open_workspace(here).state), "not writable", "chmod")
    one_line(unprivileged("dream", here), 1, str(open_workspace(here).state), "not writable", "chmod")

    open_workspace(here).state.chmod(0o700)
    scratch.chmod(0o600)
    document.chmod(0o644)
    assert document.read_bytes() == good
    assert pending(here) == [PENDING, "written to the inbox"]
    works_again(dreamd, here, PENDING)


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
    assert len(dreamd("bootstrap", document.parent).out) <= 8_000 + len(f"{GREETING}\n\n")
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
    assert len(text) <= 8_000
    assert [line for line in lines if line not in text and line not in known] == []


# ------------------------------------------------------------------ scratch.md

STAMPED = "- [2026-03-12T14:30:00Z] (importance: 0.8)"


@pytest.mark.parametrize(
    "content",
    [
        NOISE,
        f"{HEADER}\n\n- [2026-03-12T14:\n- [2026-13-45T99:00:00Z] (importance: 9) x\n{STAMPED[:-6]}\n".encode(),
        f"{HEADER}\n\n- [9999-12-31T23:59:59-10:00] too late\n- [0001-01-01T00:00:00+10:00] too early\n".encode(),
        pytest.param(
            f"{HEADER}\n\n{STAMPED} {'lorem ipsum ' * 90_000}\n{STAMPED} after it\n".encode(), marks=pytest.mark.full
        ),
        f"{HEADER}\n\n{STAMPED} bell \a escape \x1b[2J NUL \0 \u202e turned\u2028 end\n".encode(),
        f"{HEADER}\n\n{STAMPED} one\n  more of it\n- two\n".replace("\n", "\r\n").encode(),
        b"# One\n## Two\n### Three\n",
        f"{HEADER}\n\n".encode() + b"".join(b"- entry %d of many\n" % number for number in range(120)),
    ],
    ids=["noise", "half a stamp", "impossible times", "1 MB", "control characters", "CRLF", "headings", "120 lines"],
)
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


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (folder_instead, "a folder stands where a file should be; move it away"),
        (link_to("scratch.md"), "symbolic links"),
        (link_to("/etc/hostname"), OUTSIDE),
    ],
    ids=["folder", "loop", "link out"],
)
def test_a_log_that_cannot_be_written_is_named_and_notes_are_taken(
    dreamd: Caller, here: Path, spoil: Callable[[Path], None], said: str
) -> None:
    scratch, outside = here / "memory" / "scratch.md", Path("/etc/hostname").read_bytes()
    written = scratch.read_bytes()
    spoil(scratch)
    assert dreamd("note", "-w", here, "written to the inbox").status == 0
    refused(dreamd, here, ("dream", "search tea", "bootstrap"), str(scratch), said)
    examined = dreamd("doctor", here)
    assert (examined.status, examined.err) == (1, "")
    assert "problem  notes " in examined.out
    assert Path("/etc/hostname").read_bytes() == outside
    scratch.rmdir() if scratch.is_dir() else scratch.unlink()
    scratch.write_bytes(written)
    works_again(dreamd, here, PENDING, "written to the inbox")


# ---------------------------------------------------------------- transcripts


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


def test_a_transcript_that_goes_away_or_may_not_be_read_stops_no_other(here: Path, tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("The harbour is closed on Mondays.\n")
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        found = absorb_transcripts(store, [tmp_path / "gone.txt", tmp_path / "there.txt"], utc_now())
    assert found.turns == 1
    (problem,) = found.problems
    assert str(tmp_path / "gone.txt") in problem

    (tmp_path / "mine.txt").write_text("Nobody may read this\n")
    (tmp_path / "mine.txt").chmod(0)
    ended = unprivileged("ingest", tmp_path / "mine.txt", "-w", here)
    assert ended.status == 1
    (problem,) = [row for row in ended.err.splitlines() if row.startswith("problem: ")]
    assert problem == f"problem: {tmp_path / 'mine.txt'} cannot be read (Permission denied); check its permissions"


# ------------------------------------------------------ the other files, the clock


@pytest.mark.parametrize(
    "content", [NOISE, b'{"total_earnings_usdc": "lots"}', b"[" * 100_000], ids=["noise", "type", "deep"]
)
def test_a_feed_that_cannot_be_read_is_skipped_and_named(dreamd: Caller, here: Path, content: bytes) -> None:
    (here / "memory" / "economics.json").write_bytes(content)
    ended = dreamd("dream", here)
    assert ended.status == 0
    assert "notice: memory/economics.json is skipped: " in ended.err
    assert PENDING in (here / "MEMORY.md").read_text()


def test_a_genome_that_is_no_text_stops_no_dream_and_one_that_is_a_folder_does(dreamd: Caller, here: Path) -> None:
    genome = here / "GENOME.md"
    genome.mkdir()
    one_line(dreamd("dream", here), 1, str(genome), "a folder stands where a file should be; move it away")
    assert pending(here) == [PENDING]
    genome.rmdir()
    genome.write_bytes(NOISE)
    works_again(dreamd, here, PENDING)


def test_a_clock_that_was_ahead_stops_nothing(dreamd: Caller, here: Path) -> None:
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        for rows in ("versions SET at", "dreams SET started_at", "hormones SET at", "crystals SET created_at"):
            store.crystals.connection.execute(f"UPDATE {rows} = '2999-01-01T00:00:00.000000+00:00'")
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
