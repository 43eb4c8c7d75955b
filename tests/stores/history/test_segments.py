import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.errors import NotFoundError, StorageError, UsageError
from state.scratch import HEADER, MAX_NOTE_BYTES, Note
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.segments import Segments
from tests.support.faults import FaultySystem, images

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path))


@pytest.fixture
def segments(workspace: Workspace) -> Segments:
    return Segments(workspace)


def later(seconds: float = 5) -> datetime:
    """A moment at which every file of the test has been quiet."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


def add(path: Path, text: str) -> None:
    with path.open("ab") as file:
        file.write(text.encode())


def pending(segments: Segments) -> list[str]:
    return [note.text for segment in segments.pending(later()) for note in segment.notes]


def consume(segments: Segments) -> list[str]:
    """What a dream does: read what is pending, then retire it."""
    texts = []
    for segment in segments.pending(later()):
        texts += [note.text for note in segment.notes]
        segments.retire(segment.number, segment.end)
    return texts


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_an_appended_note_stands_in_scratch_below_the_header(workspace: Workspace, segments: Segments) -> None:
    stored = segments.append(Note("  tea\r\nwith milk ", AT.replace(microsecond=7), 0.8))
    assert stored == Note("tea\nwith milk", AT, 0.8)
    assert workspace.scratch.read_text(encoding="utf-8") == (
        f"{HEADER}\n\n- [2026-03-12T14:30:00Z] (importance: 0.8) tea\n  with milk\n"
    )


@pytest.mark.parametrize("text", ["", " \n\t", "x" * (MAX_NOTE_BYTES + 1), "é" * (MAX_NOTE_BYTES // 2 + 1)])
def test_a_note_that_is_empty_or_too_long_is_refused(workspace: Workspace, segments: Segments, text: str) -> None:
    with pytest.raises(UsageError, match="note"):
        segments.append(Note(text, AT))
    assert not workspace.scratch.exists()


@pytest.mark.parametrize("importance", [-0.1, 1.1, float("nan"), float("inf")])
def test_an_impossible_importance_is_refused(segments: Segments, importance: float) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        segments.append(Note("tea", AT, importance))


def test_the_longest_note_is_kept_whole(segments: Segments) -> None:
    text = "é" * (MAX_NOTE_BYTES // 2)
    segments.append(Note(text, AT))
    segments.take()
    assert pending(segments) == [text]


def test_taking_moves_the_log_aside_and_starts_a_new_one(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    assert segments.take() == 1
    assert workspace.scratch.read_text(encoding="utf-8") == f"{HEADER}\n\n"
    segments.append(Note("two", AT))
    assert pending(segments) == ["one"]
    assert [note.text for note in segments.pending_notes()] == ["one", "two"]


def test_a_log_without_notes_is_not_taken(workspace: Workspace, segments: Segments) -> None:
    assert segments.take() is None
    assert not workspace.scratch.exists()
    add(workspace.scratch, f"{HEADER}\n\n")
    assert segments.take() is None
    assert files(workspace.segments) == []


def test_a_consumed_segment_is_retired_and_pending_no_more(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    segments.take()
    (segment,) = segments.pending(later())
    assert segments.retire(segment.number, segment.end)
    assert pending(segments) == []
    assert segments.pending_notes() == ()
    assert files(workspace.retired) == [f"000001.{segment.end}.md"]
    assert segments.retire(segment.number, segment.end)


def test_a_segment_says_where_its_notes_stand(segments: Segments) -> None:
    segments.append(Note("one\nmore", AT))
    segments.take()
    (segment,) = segments.pending(later())
    assert (segment.number, segment.file, segment.start) == (1, ".dreamd/segments/000001.md", 0)
    assert [(note.first_line, note.last_line) for note in segment.notes] == [(3, 4)]


def test_a_late_write_before_retiring_stays_pending_from_where_it_begins(
    workspace: Workspace, segments: Segments
) -> None:
    segments.append(Note("one", AT))
    segments.take()
    (segment,) = segments.pending(later())
    add(workspace.segments / "000001.md", "- late\n")
    assert not segments.retire(segment.number, segment.end)
    (rest,) = segments.pending(later())
    assert ([note.text for note in rest.notes], rest.start, rest.notes[0].first_line) == (["late"], segment.end, 4)
    assert segments.retire(rest.number, rest.end)
    assert pending(segments) == []


def test_a_write_after_retiring_is_pending_again(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    with workspace.scratch.open("ab", buffering=0) as held:
        segments.take()
        assert consume(segments) == ["one"]
        for text in ("two", "three"):
            held.write(f"- {text}\n".encode())
            assert [note.text for note in segments.pending_notes()] == [text]
            assert consume(segments) == [text]
            assert pending(segments) == []
    assert len(files(workspace.retired)) == 1


def test_a_last_line_without_its_newline_waits_until_the_file_is_quiet(
    workspace: Workspace, segments: Segments
) -> None:
    add(workspace.scratch, "- one\n- tw")
    segments.take()
    now = datetime.fromtimestamp((workspace.segments / "000001.md").stat().st_mtime, UTC)
    (segment,) = segments.pending(now)
    assert [note.text for note in segment.notes] == ["one"]
    assert not segments.retire(1, segment.end)
    assert segments.pending(now) == ()
    assert pending(segments) == ["tw"]
    add(workspace.segments / "000001.md", "o\n")
    assert consume(segments) == ["two"]


def test_the_remainder_of_a_line_that_was_consumed_unfinished_is_a_note(
    workspace: Workspace, segments: Segments
) -> None:
    add(workspace.scratch, "- tw")
    segments.take()
    assert consume(segments) == ["tw"]
    (retired,) = workspace.retired.iterdir()
    add(retired, "o\n")
    assert consume(segments) == ["o"]


def test_a_clock_that_was_set_back_holds_no_line_for_ever(workspace: Workspace, segments: Segments) -> None:
    add(workspace.scratch, "- unfinished")
    segments.take()
    path = workspace.segments / "000001.md"
    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert [len(segment.notes) for segment in segments.pending(AT)] == [1]


def test_retiring_less_than_before_changes_nothing(segments: Segments) -> None:
    for text in ("one", "two"):
        segments.append(Note(text, AT))
    segments.take()
    (segment,) = segments.pending(later())
    segments.retire(1, segment.end - 5)
    segments.retire(1, 3)
    (rest,) = segments.pending(later())
    assert rest.start == segment.end - 5


def test_retiring_less_of_a_retired_segment_changes_nothing(segments: Segments) -> None:
    segments.append(Note("one", AT))
    segments.take()
    (segment,) = segments.pending(later())
    segments.retire(1, segment.end)
    assert segments.retire(1, 3)
    assert pending(segments) == []


def test_a_reader_that_meets_the_log_twice_while_it_is_taken_shows_its_notes_once(
    workspace: Workspace, segments: Segments
) -> None:
    segments.append(Note("one", AT))
    (workspace.segments / "000001.md").hardlink_to(workspace.scratch)
    assert [note.text for note in segments.pending_notes()] == ["one"]


def test_what_a_plain_append_wrote_survives_a_loss_of_power_once_it_was_taken(tmp_path: Path) -> None:
    workspace = init_workspace(contained(tmp_path / "agent"))
    system = FaultySystem(workspace.root)
    add(workspace.scratch, "- by hand\n")
    Segments(workspace, Disk(workspace.root, system)).take()
    for image in images(system, tmp_path / "images"):
        assert pending(Segments(contained(image))) == ["by hand"]


def test_a_number_that_another_owner_took_meanwhile_is_left_alone(workspace: Workspace) -> None:
    class AnotherIsFaster(System):
        def rename_new(self, source: Path, target: Path, /) -> None:
            if target.name == "000001.md" and not target.exists():
                target.write_text("- theirs\n", encoding="utf-8")
            super().rename_new(source, target)

    segments = Segments(workspace, Disk(workspace.root, AnotherIsFaster()))
    segments.append(Note("mine", AT))
    assert segments.take() == 2
    assert pending(segments) == ["theirs", "mine"]


def test_nothing_past_the_end_of_a_segment_counts_as_consumed(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    segments.take()
    assert segments.retire(1, 1_000_000)
    (retired,) = workspace.retired.iterdir()
    add(retired, "- late\n")
    assert pending(segments) == ["late"]


def test_retiring_a_segment_that_is_gone_is_done(segments: Segments) -> None:
    assert segments.retire(7, 100)


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"consumed": "x"}', b'{"consumed": 1e400}', b"\xff"])
def test_a_damaged_record_makes_notes_pending_again_rather_than_losing_them(
    workspace: Workspace, segments: Segments, record: bytes
) -> None:
    segments.append(Note("one", AT))
    segments.take()
    segments.retire(1, 3)
    (workspace.segments / "000001.json").write_bytes(record)
    assert pending(segments) == ["one"]


def test_no_number_is_given_twice(workspace: Workspace, segments: Segments) -> None:
    for number in (1, 2, 3):
        segments.append(Note("x", AT))
        assert segments.take() == number
        consume(segments)
    assert segments.sweep(later(40 * 86_400)) == 3
    assert files(workspace.retired) == []
    assert files(workspace.segments) == ["000003.json"]
    segments.append(Note("x", AT))
    assert segments.take() == 4


def test_retired_segments_are_swept_when_they_are_old_and_not_before(
    workspace: Workspace, segments: Segments
) -> None:
    segments.append(Note("one", AT))
    segments.take()
    consume(segments)
    assert segments.sweep(later(29 * 86_400)) == 0
    assert segments.sweep(later(31 * 86_400)) == 1
    assert files(workspace.retired) == []


def test_a_retired_segment_that_grew_is_not_swept(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    segments.take()
    consume(segments)
    (retired,) = workspace.retired.iterdir()
    add(retired, "- late\n")
    assert segments.sweep(later(31 * 86_400)) == 0
    assert consume(segments) == ["late"]


def test_a_retired_segment_that_is_still_held_open_is_not_swept(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    script = "import sys; f = open(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(workspace.scratch)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        segments.take()
        consume(segments)
        assert segments.sweep(later(31 * 86_400)) == 0
        writer.communicate()
    assert segments.sweep(later(31 * 86_400)) == 1


def test_sweeping_finishes_a_retirement_that_was_cut_off(workspace: Workspace, segments: Segments) -> None:
    segments.append(Note("one", AT))
    segments.take()
    size = (workspace.segments / "000001.md").stat().st_size
    (workspace.segments / "000001.json").write_text(json.dumps({"consumed": size}), encoding="utf-8")
    segments.sweep(later())
    assert files(workspace.retired) == [f"000001.{size}.md"]
    assert pending(segments) == []


def test_sweeping_removes_old_leftovers_of_killed_writers(workspace: Workspace, segments: Segments) -> None:
    left = workspace.scratch.parent / ".scratch.md.1-00000000.dreamd-tmp"
    left.touch()
    segments.sweep(later())
    assert left.exists()
    segments.sweep(later(7200))
    assert not left.exists()


def test_hand_written_notes_have_the_time_of_their_file(workspace: Workspace, segments: Segments) -> None:
    add(workspace.scratch, "- by hand\n")
    os.utime(workspace.scratch, (AT.timestamp(), AT.timestamp()))
    (note,) = segments.pending_notes()
    assert (note.at, note.stamped) == (AT, False)


def test_a_log_of_bytes_that_are_no_text_is_read(workspace: Workspace, segments: Segments) -> None:
    workspace.scratch.write_bytes(b"\xff\xfe\n- a\0b\n\x00\n")
    segments.take()
    assert pending(segments) == [r"\xff\xfe", r"a\x00b", r"\x00"]


def test_a_log_that_leads_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    workspace = init_workspace(contained(tmp_path / "agent"))
    (tmp_path / "outside.md").write_text("- a\n", encoding="utf-8")
    workspace.scratch.symlink_to(tmp_path / "outside.md")
    segments = Segments(workspace)
    for act in (lambda: segments.append(Note("x", AT)), segments.take, segments.pending_notes):
        with pytest.raises(StorageError, match="outside"):
            act()
    assert (tmp_path / "outside.md").read_text(encoding="utf-8") == "- a\n"


def test_a_log_behind_a_link_inside_the_workspace_is_taken_from_where_it_is(workspace: Workspace) -> None:
    (workspace.root / "real.md").write_text("- a\n", encoding="utf-8")
    workspace.scratch.symlink_to(workspace.root / "real.md")
    segments = Segments(workspace)
    segments.take()
    segments.append(Note("b", AT))
    assert pending(segments) == ["a"]
    assert [note.text for note in segments.pending_notes()] == ["a", "b"]
    assert workspace.scratch.is_symlink()


def test_a_missing_state_folder_is_an_error_that_says_what_to_do(workspace: Workspace, segments: Segments) -> None:
    workspace.retired.rmdir()
    with pytest.raises(NotFoundError, match="dreamd init"):
        segments.pending(later())


def test_appending_and_reading_loads_nothing_heavy() -> None:
    script = (
        "import sys, state.stores.disk.lock, state.stores.history.segments; "
        "print(sorted({'pydantic', 'sqlite3', 'numpy', 'chromadb', 'ctypes', 'asyncio'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"
