from datetime import UTC, datetime

import pytest

from state.scratch import HEADER, MAX_NOTE_BYTES, Note, decode, parse_notes, render_note

FILE_TIME = datetime(2026, 3, 1, tzinfo=UTC)
AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)


def read(log: str) -> list[str]:
    return [note.text for note in parse_notes(log, FILE_TIME)]


def test_an_entry_is_written_as_the_specification_says() -> None:
    assert render_note(Note("likes tea", AT, 0.8)) == "- [2026-03-12T14:30:00Z] (importance: 0.8) likes tea\n"
    assert render_note(Note("a\nb", AT, 1.0, auto=True)) == (
        "- [2026-03-12T14:30:00Z] (importance: 1) [AUTO] a\n  b\n"
    )


def test_a_stamped_entry_is_read() -> None:
    (note,) = parse_notes(f"{HEADER}\n\n- [2026-03-12T14:30:00Z] (importance: 0.25) [AUTO] a\n  b\n", FILE_TIME)
    assert note == Note("a\nb", AT, 0.25, auto=True, stamped=True, first_line=3, last_line=4)


@pytest.mark.parametrize("bullet", ["-", "*", "+"])
def test_a_bullet_without_a_stamp_is_a_note(bullet: str) -> None:
    (note,) = parse_notes(f"{bullet} likes tea\n", FILE_TIME)
    assert note == Note("likes tea", FILE_TIME, 0.7, stamped=False, first_line=1, last_line=1)


def test_lines_without_a_bullet_are_a_paragraph_and_a_blank_line_ends_it() -> None:
    assert read("one\ntwo\n\nthree\n") == ["one\ntwo", "three"]


def test_a_plain_line_below_a_bullet_is_a_note_of_its_own() -> None:
    assert read("- [2026-03-12T14:30:00Z] (importance: 0.5) mine\ntheirs\n- third\n") == ["mine", "theirs", "third"]


def test_a_paragraph_longer_than_a_note_goes_on_in_the_next_note() -> None:
    lines = ["x" * 1000 for _ in range(40)]
    texts = read("\n".join(lines))
    assert "\n".join(texts) == "\n".join(lines)
    assert all(len(text) <= MAX_NOTE_BYTES for text in texts)


@pytest.mark.parametrize("header", [HEADER, "# Scratch Buffer", "\ufeff" + HEADER, HEADER + "\r"])
def test_the_header_is_no_note(header: str) -> None:
    assert read(f"{header}\n\n- a\n") == ["a"]


def test_the_header_in_the_middle_parts_two_notes() -> None:
    assert read(f"one\n{HEADER}\ntwo\n") == ["one", "two"]


def test_another_heading_is_kept_as_a_note() -> None:
    assert read("# remember the milk\n- a\n#tag\n") == ["# remember the milk", "a", "#tag"]


@pytest.mark.parametrize("rule", ["---", "***", "_ _ _", "-----"])
def test_a_rule_is_no_note(rule: str) -> None:
    assert read(f"one\n{rule}\ntwo\n") == ["one", "two"]


def test_blank_lines_inside_an_entry_belong_to_it_and_those_after_it_do_not() -> None:
    assert read("- a\n\n\n  b\n\n- c\n") == ["a\n\n\nb", "c"]


def test_an_indented_line_without_an_entry_is_a_note() -> None:
    assert read("  the tail of something\n") == ["the tail of something"]


def test_a_checkbox_keeps_its_box() -> None:
    assert read("- [ ] call Ann\n- [x] call Bob\n") == ["[ ] call Ann", "[x] call Bob"]


@pytest.mark.parametrize("stamp", ["yesterday", "2026-02-30T10:00:00Z", "2026-13-01", "2026-03-12T25:00:00Z", ""])
def test_a_stamp_that_is_no_time_stays_in_the_text(stamp: str) -> None:
    (note,) = parse_notes(f"- [{stamp}] (importance: 0.9) tea\n", FILE_TIME)
    assert note == Note(f"[{stamp}] (importance: 0.9) tea", FILE_TIME, 0.7, stamped=False, first_line=1, last_line=1)


@pytest.mark.parametrize(
    ("written", "importance", "text"),
    [
        ("7", 1.0, "tea"),
        ("-1", 0.0, "tea"),
        ("nan", 0.7, "(importance: nan) tea"),
        ("very", 0.7, "(importance: very) tea"),
    ],
)
def test_an_importance_out_of_range_is_clamped_and_one_that_is_no_number_stays_text(
    written: str, importance: float, text: str
) -> None:
    (note,) = parse_notes(f"- [2026-03-12T14:30:00Z] (importance: {written}) tea\n", FILE_TIME)
    assert (note.importance, note.text, note.at) == (importance, text, AT)


def test_an_entry_without_an_importance_has_the_default() -> None:
    (note,) = parse_notes("- [2026-03-12T14:30:00Z] tea\n", FILE_TIME)
    assert (note.importance, note.text, note.stamped) == (0.7, "tea", True)


def test_times_of_other_zones_and_without_one_are_read_as_utc() -> None:
    log = "- [2026-03-12T16:30:00+02:00] a\n- [2026-03-12 14:30] b\n"
    assert {note.at for note in parse_notes(log, FILE_TIME)} == {AT}


def test_only_newlines_end_a_line() -> None:
    assert read("- a\u2028b\x85c\x0bd\n") == ["a\u2028b\x85c\x0bd"]


def test_bytes_that_are_no_utf8_stay_readable() -> None:
    assert read(decode(b"- caf\xe9\n")) == [r"caf\xe9"]


def test_nul_and_lone_surrogates_are_written_as_escapes() -> None:
    assert read(render_note(Note("a\0b\udcffc", AT))) == [r"a\x00b\udcffc"]


def test_an_empty_bullet_is_no_note() -> None:
    assert read("-\n- \n- [2026-03-12T14:30:00Z] (importance: 0.8)\n") == []


def test_lines_are_counted_from_the_given_one() -> None:
    (note,) = parse_notes("\n- a\n  b\n", FILE_TIME, first_line=10)
    assert (note.first_line, note.last_line) == (11, 12)
