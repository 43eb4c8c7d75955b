"""Where a block begins and ends in a person's file."""

import pytest

from state.document.fence import BEGIN, END, fenced
from state.errors import DocumentError

BLOCK = f"{BEGIN}\n- a\n{END}".encode()


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"# A\n", b"# A\r\n\r\n  ", b"\xff\xfe\n"])
@pytest.mark.parametrize("after", [b"", b"\n", b" \r\n", b"\n\nmore\xff"])
def test_a_block_is_found_to_the_byte(before: bytes, after: bytes) -> None:
    found = fenced(before + BLOCK + after)
    assert found is not None
    assert (found.before, found.block, found.after, found.inside) == (before, BLOCK, after, "- a\n")


@pytest.mark.parametrize(
    "content", ["", "text\n", f"a {BEGIN} in a row\n{END} b\n", "<!-- dreamd:begin->\n", f"`{BEGIN}`\n"]
)
def test_a_mention_of_a_marker_is_none(content: str) -> None:
    assert fenced(content.encode()) is None


@pytest.mark.parametrize(
    "rows", [[BEGIN], [END], [END, BEGIN], [BEGIN, BEGIN, END], [BEGIN, END, END], [BEGIN, END, BEGIN, END]]
)
def test_markers_that_are_no_pair_are_refused(rows: list[str]) -> None:
    with pytest.raises(DocumentError, match="not one of each"):
        fenced("\n".join(["text", *rows, "text"]).encode())


def test_a_conflict_of_git_is_refused() -> None:
    conflict = f"{BEGIN}\n<<<<<<< HEAD\n- a\n=======\n- b\n>>>>>>> theirs\n{END}\n"
    with pytest.raises(DocumentError, match="could not merge"):
        fenced(conflict.encode())
