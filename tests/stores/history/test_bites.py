"""Bites of the log: a dream takes the oldest notes that it can hold, and what is counted and shown costs little."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StorageError
from state.scratch import HEADER, Bite, Note, parse_notes
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.segments import Segments

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path))


@pytest.fixture
def segments(workspace: Workspace) -> Segments:
    return Segments(workspace)


def later() -> datetime:
    """A moment at which every file of the test has been quiet."""
    return datetime.now(UTC) + timedelta(seconds=5)


def add(path: Path, text: str) -> None:
    with path.open("ab") as file:
        file.write(text.encode())


def pending(segments: Segments) -> list[str]:
    return [note.text for segment in segments.pending(later()) for note in segment.notes]


def consume(segments: Segments) -> None:
    for segment in segments.pending(later()):
        segments.retire(segment.number, segment.end)


def bite(notes: int, room: int = 10**9) -> Bite:
    return Bite(notes, room, lambda note: len(note.text))


LINES = st.lists(
    st.sampled_from(
        ["- a", "- [2026-03-12T14:30:00Z] (importance: 0.8) b", "  more of it", "", "a paragraph", "its second line",
         "---", HEADER, "# a heading", "- ", "* c\r", "\ufeff- d", "\t e", "- é\udcff"]
    ),
    max_size=25,
)  # fmt: skip


@given(LINES, st.integers(1, 4), st.sampled_from(["", "\n"]))
def test_bites_of_a_log_are_its_notes_each_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], most: int, end: str
) -> None:
    segments = Segments(init_workspace(contained(tmp_path_factory.mktemp("w"))))
    text = "\n".join(lines) + end
    content = text.encode("utf-8", "surrogateescape")
    segments._workspace.scratch.write_bytes(content)
    wanted = parse_notes(content.decode("utf-8", "backslashreplace"), AT)
    taken = segments.take()
    assert (taken is not None) == bool(wanted)
    read: list[str] = []
    places: list[tuple[int, int]] = []
    while found := segments.pending(later(), bite(most)):
        (segment,) = found
        assert 1 <= len(segment.notes) <= most or not wanted[len(read) :]
        read += [note.text for note in segment.notes]
        places += [(note.first_line, note.last_line) for note in segment.notes]
        segments.retire(segment.number, segment.end)
    assert read == [note.text for note in wanted]
    assert places == [(note.first_line, note.last_line) for note in wanted]
    assert segments.count().notes == 0


def test_a_bite_ends_where_its_room_does_and_takes_one_note_in_any_case(segments: Segments) -> None:
    for text in ("x" * 50, "y" * 5, "z" * 5, "w"):
        segments.append(Note(text, AT))
    segments.take()
    sizes = []
    while found := segments.pending(later(), bite(9, room=10)):
        sizes.append([len(note.text) for note in found[0].notes])
        segments.retire(found[0].number, found[0].end)
    assert sizes == [[50], [5, 5], [1]]


def test_a_bite_goes_on_over_several_segments(segments: Segments) -> None:
    for text in ("one", "two", "three"):
        segments.append(Note(text, AT))
        segments.take()
    assert [[n.text for n in s.notes] for s in segments.pending(later(), bite(2))] == [["one"], ["two"]]


def test_a_revived_segment_is_pending_from_the_place_that_is_named(segments: Segments) -> None:
    for text in ("one", "two", "three"):
        segments.append(Note(text, AT))
    number = segments.take()
    (first,) = segments.pending(later(), bite(1))
    assert number is not None
    consume(segments)
    assert segments.revive(number, first.end)
    assert segments.revive(number, first.end)  # again: nothing more
    assert pending(segments) == ["two", "three"]


def test_a_long_log_is_counted_up_to_a_thousand_and_shown_from_its_end(
    workspace: Workspace, segments: Segments
) -> None:
    add(workspace.scratch, "".join(f"- note {n}\n  and more\n" for n in range(30_000)))
    count = segments.count()
    assert (str(count), count.notes) == ("1,000+", 1_000)
    newest = segments.newest(1_000)
    assert newest.more
    assert newest.notes[-1].text == "note 29999\nand more"
    numbers = [int(note.text.split()[1]) for note in newest.notes]
    assert numbers == list(range(numbers[0], 30_000))
    assert 20 < len(numbers) < 60


def test_the_newest_are_all_when_they_are_few(segments: Segments) -> None:
    segments.append(Note("one", AT))
    segments.take()
    segments.append(Note("two", AT))
    newest = segments.newest()
    assert ([note.text for note in newest.notes], newest.more) == (["one", "two"], False)


def test_a_line_that_no_log_has_is_not_read(workspace: Workspace, segments: Segments) -> None:
    with workspace.scratch.open("wb") as file:
        file.truncate(64 << 20)
    with pytest.raises(StorageError, match="a line of more than"):
        segments.take()


def peak_of_a_dream(folder: Path, notes: int) -> int:
    """The most memory, in bytes, that whoever takes a bite, counts, and shows what is pending holds at once."""
    workspace = init_workspace(contained(folder))
    add(workspace.scratch, "".join(f"- note {n} is about the garden of house {n}\n" for n in range(notes)))
    segments = Segments(workspace)
    tracemalloc.start()
    segments.take()
    for _ in range(3):
        (segment,) = segments.pending(later(), bite(100))
        segments.retire(segment.number, segment.end)
        segments.count()
        segments.newest(10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.full
def test_a_dream_holds_no_more_of_a_long_log_than_of_a_short_one(tmp_path: Path) -> None:
    short, long = peak_of_a_dream(tmp_path / "a", 1_500), peak_of_a_dream(tmp_path / "b", 40_000)
    assert long < 1.5 * short  # the log itself has 27 times as much
