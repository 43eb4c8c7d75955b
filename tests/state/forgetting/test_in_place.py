"""Notes are blanked in place: nothing moves but within its line, and what is left reads as if it were all."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.forgetting.cutting import Span
from state.forgetting.in_place import blanked
from state.forgetting.known import Target, spans
from state.scratch import HEADER, Note, decode, parse_notes, render_note

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
SECRET = "the vault code is 4711"


def finder(*texts: str) -> Callable[[str], Sequence[Span]]:
    targets = [Target.of(text) for text in texts]
    return lambda text: spans(text, targets)


def blank(text: str | bytes, *texts: str) -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return blanked(content, parse_notes(decode(content), AT), finder(*(texts or (SECRET,))))


def left(text: str | bytes, *texts: str) -> list[str]:
    return [note.text for note in parse_notes(decode(blank(text, *texts)), AT)]


def test_a_note_that_says_nothing_else_reads_as_no_note() -> None:
    note = render_note(Note("The Vault  *code* is 4711.", AT))
    assert left(note) == []
    assert len(blank(note)) == len(note)


def test_its_other_sentences_stay_with_stamp_and_importance() -> None:
    content = render_note(Note("Miez is a cat. The vault code is 4711. Rex is a dog.", AT, 0.9)).encode()
    (note,) = parse_notes(decode(blank(content)), datetime.now(UTC))
    assert (note.text, note.at, note.importance, note.stamped) == ("Miez is a cat. Rex is a dog.", AT, 0.9, True)
    assert len(blank(content)) == len(content)


@pytest.mark.parametrize("replaces", [SECRET, f"{SECRET} (of 2019)"])
@pytest.mark.parametrize("text", ["Miez is a cat.", "Miez is a cat. The vault code is 4711.", "(replaces: L5) Miez"])
def test_what_a_note_replaces_goes_as_a_whole(replaces: str, text: str) -> None:
    content = render_note(Note(text, AT, replaces=replaces)).encode()
    new = blank(content)
    (note,) = parse_notes(decode(new), AT)
    assert (note.text, note.replaces, note.at) == (text.removesuffix(" The vault code is 4711."), "", AT)
    assert len(new) == len(content)


def test_lines_of_one_note_keep_their_places() -> None:
    content = render_note(Note("First.\nThe vault code is 4711.\nLast.", AT)).encode()
    new = blank(content)
    assert [len(row) for row in new.split(b"\n")] == [len(row) for row in content.split(b"\n")]
    assert left(content) == ["First.\n\nLast."]


def test_one_that_goes_over_a_line_end_goes_from_both() -> None:
    (text,) = left(render_note(Note("One. The vault\ncode is 4711. Two.", AT)))
    assert [row.rstrip() for row in text.split("\n")] == ["One.", "Two."]


def test_the_rest_of_a_note_is_no_part_of_the_one_before_it() -> None:
    content = render_note(Note("Miez", AT)) + render_note(Note(f"{SECRET}\nRex", AT))
    assert left(content) == ["Miez", "Rex"]


@pytest.mark.parametrize(
    "text",
    [
        f"- {SECRET}\r\n- Miez\r\n",
        f"{SECRET}\n\n- Miez\n",
        f"# {SECRET}\n\n- Miez\n",
        f"\ufeff- {SECRET}\n- Miez\n",
        f"- [ ] {SECRET}\n- Miez\n",
        f"- [2026-03-12] (importance: 0.8) [AUTO] {SECRET}\n- Miez\n",
        f"- Miez\n- {SECRET}",
        f"* {SECRET.upper()}\n\n  and the vault code is 4711\n* Miez",
    ],
)
def test_whatever_the_note_looks_like(text: str) -> None:
    assert left(text) == ["Miez"]
    assert len(blank(text)) == len(text.encode())


def test_bytes_that_are_no_utf_8_and_wide_characters_keep_their_length() -> None:
    content = (
        f"- caf\xe9 – 東京. T{SECRET[1:]}. Ende\n".encode() + b"- \xff\xfe the vault code is 4711 \xe9\n- Miez\n"
    )
    new = blank(content)
    assert len(new) == len(content)
    assert left(content) == ["café – 東京. Ende", "Miez"]


def test_what_is_a_word_of_its_stamp_alone_is_not_its_text() -> None:
    content = render_note(Note("Miez", AT))
    assert blank(content, "2026") == content.encode()
    assert left("- 1. Miez\n", "1") in (["Miez"], [])  # the number of a list is a word like any other


notes = st.lists(
    st.lists(
        st.sampled_from(["Miez is a cat.", "The vault code is 4711.", "the vault", "code is 4711", "Ende\n", "- x"]),
        min_size=1,
        max_size=4,
    ).map(" ".join),
    min_size=1,
    max_size=4,
)


@given(notes)
def test_nothing_is_found_any_more_nothing_moves_and_other_notes_are_as_they_were(texts: list[str]) -> None:
    content = (f"{HEADER}\n\n" + "".join(render_note(Note(text, AT)) for text in texts)).encode()
    before, new, found = parse_notes(decode(content), AT), blank(content), finder(SECRET)
    after = parse_notes(decode(new), AT)
    assert [len(row) for row in new.split(b"\n")] == [len(row) for row in content.split(b"\n")]
    assert not any(found(note.text) for note in after)
    untouched = [note for note in before if not found(note.text)]
    assert [note for note in after if note in untouched] == untouched
    assert blanked(new, after, found) == new
