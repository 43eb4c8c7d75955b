"""Laws of the write-ahead log's text: what is written is read, and nothing that is there is lost."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.scratch import HEADER, Note, decode, normal_note, parse_notes, plain_text, render_note

FILE_TIME = datetime(2026, 3, 12, 9, 0, tzinfo=UTC)

STAMP = "- [2026-03-12T14:30:00Z] (importance: 0.8) "
controls = [
    "\r",
    "\r\n",
    "\t",
    "\x0b",
    "\x0c",
    "\x85",
    "\u2028",
    "\u2029",
    "\0",
    "\x1b[31m",
    "\ufeff",
    "\udc80",
    "\ud800",
]
marks = [
    "\n",
    "\n\n",
    "\n  ",
    "\n- ",
    "\n* ",
    "\n# ",
    "```\n",
    STAMP,
    "[AUTO] ",
    "[AUTO]",
    "(importance: 0.1) ",
    "(replaces: L12) ",
    '(replaces: "a (b)") ',
    '"',
    "\\",
    ")",
    "  ",
]
pieces = st.sampled_from([*controls, *marks, "é", "🌋", "word", "---", HEADER])
texts = st.lists(st.one_of(pieces, st.text(max_size=8)), max_size=12).map("".join)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1), timezones=zones)
notes = st.builds(
    Note,
    text=texts,
    at=moments,
    importance=st.floats(0, 1),
    auto=st.booleans(),
    replaces=texts.map(lambda text: text[:900]),
)
real_notes = notes.filter(lambda note: bool(plain_text(note.text)))


def without_lines(note: Note) -> Note:
    return Note(note.text, note.at, note.importance, note.auto, note.replaces, note.stamped)


@given(real_notes)
@example(Note("[AUTO] typed by hand", FILE_TIME))
@example(Note("[AUTO]", FILE_TIME, auto=True))
@example(Note("[AUTO]", FILE_TIME))
@example(Note("(replaces: L12) is what it says", FILE_TIME))
@example(Note("(replaces: L12) [AUTO] b", FILE_TIME, replaces='"a" (b\\) ['))
@example(Note("a\n\n\n- [2026-01-01T00:00:00Z] b\n# c", FILE_TIME, 0.0))
def test_parse_undoes_render(note: Note) -> None:
    (read,) = parse_notes(render_note(note), FILE_TIME)
    assert without_lines(read) == normal_note(note)


@given(st.lists(real_notes, max_size=6))
def test_a_log_reads_as_its_notes_with_crlf_too_and_trimmed_it_keeps_every_word(many: list[Note]) -> None:
    log = f"{HEADER}\n\n" + "".join(render_note(note) for note in many)
    read = parse_notes(log, FILE_TIME)
    assert [without_lines(note) for note in read] == [normal_note(note) for note in many]
    assert parse_notes(log.replace("\n", "\r\n"), FILE_TIME) == read
    trimmed = "\n".join(line.rstrip(" \t") for line in log.split("\n"))
    words = [note.text.split() for note in parse_notes(trimmed, FILE_TIME)]
    assert words == [normal_note(note).text.split() for note in many]


@given(texts)
def test_plain_text_is_settled_after_one_pass_can_be_encoded_and_has_no_nul(text: str) -> None:
    once = plain_text(text)
    assert plain_text(once) == once
    assert b"\0" not in once.encode()


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read_and_what_is_read_can_be_written_again(raw: bytes) -> None:
    for note in parse_notes(decode(raw), FILE_TIME):
        (again,) = parse_notes(render_note(note), FILE_TIME)
        assert again.texts == note.texts
        assert 0 <= again.importance <= 1


@given(st.lists(st.one_of(pieces, st.text(max_size=12)), max_size=20).map("".join))
def test_every_word_of_a_hand_written_log_is_in_a_note_and_the_notes_are_rows_of_the_file(log: str) -> None:
    found, last = parse_notes(log, FILE_TIME), 0
    assert sum(note.text.count("word") for note in found) == log.count("word")
    for note in found:
        assert last < note.first_line <= note.last_line <= log.count("\n") + 1
        last = note.last_line


@pytest.mark.parametrize(
    ("mark", "replaces", "text"),
    [
        ("(replaces: L12) ", "L12", "Ines owns Grafana"),
        ("(Replaces:  Tom owns it ) ", "Tom owns it", "Ines owns Grafana"),
        ('(replaces: "Tom (the old one) owns \\"it\\"") [AUTO] ', 'Tom (the old one) owns "it"', "Ines owns Grafana"),
        ("(replaces: ) ", "", "Ines owns Grafana"),
        ("(replaces: Tom (old)) ", "", "(replaces: Tom (old)) Ines owns Grafana"),
        (f"(replaces: {'a' * 1_001}) ", "", f"(replaces: {'a' * 1_001}) Ines owns Grafana"),
        ("it says (replaces: L12) ", "", "it says (replaces: L12) Ines owns Grafana"),
    ],
)
def test_what_a_note_replaces_is_named_by_hand(mark: str, replaces: str, text: str) -> None:
    (note,) = parse_notes(f"{STAMP}{mark}Ines owns Grafana\n", FILE_TIME)
    assert (note.replaces, note.text) == (replaces, text)
