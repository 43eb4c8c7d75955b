"""What of a file of instructions or memory is somebody's word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.ingest.memory_text import applies, folder_of_summary, memory_text
from state.document.fence import BEGIN, END
from state.errors import DocumentError
from tests.support.existing_memory import HANDBOOK, SUMMARY


def here(folder: str) -> bool:
    return folder == "/here"


def left(text: str) -> list[tuple[int, str]]:
    """The lines that are left, with their numbers."""
    lines = memory_text(text.encode(), here).content.decode().split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line]


def test_the_block_of_dreamd_is_nobodys_word_and_the_lines_keep_their_numbers() -> None:
    assert left(f"one\n{BEGIN}\n- two\n- three\n{END}\nfour\n") == [(1, "one"), (6, "four")]


@pytest.mark.parametrize("text", [f"a\n{BEGIN}\nb\n", f"a\n{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n", "a\0b"])
def test_where_it_is_not_clear_what_the_block_is_nothing_is_read(text: str) -> None:
    with pytest.raises(DocumentError):
        memory_text(text.encode(), here)


def test_heads_that_programs_write_are_left_out() -> None:
    assert left("---\nname: x\ntype: y\n---\nword\n") == [(5, "word")]
    assert left("---\nno end of it\n") == [(1, "---"), (2, "no end of it")]
    assert left(SUMMARY.format(here="/here")) == [(6, "The migration of the orders table took two hours")]


def test_imports_are_counted_and_not_followed() -> None:
    text = "@docs/a.md\n- @~/b.md\nSee @c.md, and mail ada@example.org\n```\n@d.md\n```\n`@e.md`\n@everyone listen\n"
    made = memory_text(text.encode(), here)
    assert made.imports == 3
    assert "@docs" not in made.content.decode()
    assert "See @c.md" in made.content.decode()
    assert "\n@d.md\n" in made.content.decode()


def test_of_codexs_handbook_the_groups_of_this_project_count() -> None:
    text = HANDBOOK.format(here="/here")
    assert applies(text.encode(), here)
    assert not applies(HANDBOOK.format(here="/there").encode(), here)
    words = "\n".join(line for _, line in left(text))
    assert "release notes" in words
    assert "llamas" not in words
    assert "applies_to" not in words


@pytest.mark.parametrize("named", ["cwd=/there, /here", "cwd=`/here`", 'cwd="/here"; x', "cwd=/there and /here"])
def test_a_group_may_apply_to_several_folders(named: str) -> None:
    assert applies(f"applies_to: {named}\n".encode(), here)


def test_a_summary_names_its_folder_in_its_header_alone() -> None:
    assert folder_of_summary(SUMMARY.format(here="/a b").encode()) == "/a b"
    assert folder_of_summary(b"thread_id: 1\n\ncwd: /here\n") == ""
    assert folder_of_summary(b"") == ""


@given(st.binary(max_size=300))
def test_no_bytes_do_harm_and_no_line_is_moved(content: bytes) -> None:
    try:
        made = memory_text(content, here)
    except DocumentError:
        return
    before, after = content.split(b"\n"), made.content.split(b"\n")
    assert len(before) == len(after)
    assert all(line in (b"", old) for old, line in zip(before, after, strict=True))
