"""The write-ahead log by example: what is written, and which notes a text holds."""

from datetime import UTC, datetime

import pytest

from state.scratch import HEADER, MAX_NOTE_BYTES, Note, decode, parse_notes, render_note

FILE_TIME = datetime(2026, 3, 1, tzinfo=UTC)
AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
STAMP = "[2026-03-12T14:30:00Z]"


def one_line(text: str, at: datetime = AT, importance: float = 0.7) -> Note:
    """Return the note of a log of one line. Without a stamp its time is the file's."""
    return Note(text, at, importance, stamped=at != FILE_TIME, first_line=1, last_line=1)


def read(log: str) -> list[str]:
    return [note.text for note in parse_notes(log, FILE_TIME)]


def test_an_entry_is_written_as_the_specification_says() -> None:
    assert render_note(Note("likes tea", AT, 0.8)) == f"- {STAMP} (importance: 0.8) likes tea\n"
    assert render_note(Note("a\nb", AT, 1.0, auto=True)) == f"- {STAMP} (importance: 1) [AUTO] a\n  b\n"


@pytest.mark.parametrize(
    ("log", "note"),
    [
        (
            f"{HEADER}\n\n- {STAMP} (importance: 0.25) [AUTO] a\n  b\n",
            Note("a\nb", AT, 0.25, auto=True, first_line=3, last_line=4),
        ),
        *((f"{bullet} tea\n", one_line("tea", FILE_TIME)) for bullet in "-*+"),
        (f"- {STAMP} tea\n", one_line("tea")),
        ("- [2026-03-12T16:30:00+02:00] tea\n", one_line("tea")),
        ("- [2026-03-12 14:30] tea\n", one_line("tea")),
        (f"- {STAMP} (importance: 7) tea\n", one_line("tea", AT, 1.0)),
        (f"- {STAMP} (importance: -1) tea\n", one_line("tea", AT, 0.0)),
        *(
            (f"- {STAMP} (importance: {no}) tea\n", one_line(f"(importance: {no}) tea"))
            for no in ("nan", "-inf", "1e400", "high", "0,8")
        ),
        *(
            (
                f"- [{no}] (importance: 0.9) x\n",
                one_line(f"[{no}] (importance: 0.9) x", FILE_TIME),
            )
            for no in ("yesterday", "2026-02-30T10:00:00Z", "2026-13-01", "2026-03-12T25:00:00Z", "")
        ),
    ],
)
def test_a_stamp_is_read_and_what_is_none_stays_in_the_text(log: str, note: Note) -> None:
    assert parse_notes(log, FILE_TIME) == (note,)


@pytest.mark.parametrize(
    ("log", "texts"),
    [
        ("one\ntwo\n\nthree\n", ["one\ntwo", "three"]),
        (f"- {STAMP} (importance: 0.5) mine\ntheirs\n- third\n", ["mine", "theirs", "third"]),
        *((f"{head}\n\n- a\n", ["a"]) for head in (HEADER, "# Scratch Buffer", "\ufeff" + HEADER, HEADER + "\r")),
        (f"one\n{HEADER}\ntwo\n", ["one", "two"]),
        ("# remember the milk\n- a\n#tag\n", ["# remember the milk", "a", "#tag"]),
        *((f"one\n{rule}\ntwo\n", ["one", "two"]) for rule in ("---", "***", "_ _ _", "-----")),
        ("- a\n\n\n  b\n\n- c\n", ["a\n\n\nb", "c"]),
        ("  the tail of something\n", ["the tail of something"]),
        ("- [ ] call Ann\n- [x] call Bob\n", ["[ ] call Ann", "[x] call Bob"]),
        ("- a\u2028b\x85c\x0bd\n", ["a\u2028b\x85c\x0bd"]),
        (decode(b"- caf\xe9\n"), [r"caf\xe9"]),
        (render_note(Note("a\0b\udcffc", AT)), [r"a\x00b\udcffc"]),
        (f"-\n- \n- {STAMP} (importance: 0.8)\n", []),
    ],
)
def test_the_notes_of_a_text(log: str, texts: list[str]) -> None:
    assert read(log) == texts


def test_a_paragraph_longer_than_a_note_goes_on_in_the_next_note() -> None:
    lines = "\n".join("x" * 1000 for _ in range(40))
    assert "\n".join(read(lines)) == lines
    assert all(len(text) <= MAX_NOTE_BYTES for text in read(lines))
