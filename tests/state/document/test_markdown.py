"""The rows of a Markdown text by example."""

import pytest

from state.document.markdown import heading_of, part_starts, rows_of, units


@pytest.mark.parametrize(
    ("row", "heading"),
    [
        ("## The Bond\n", (2, "The Bond")),
        ("# a # b ##\r\n", (1, "a # b")),
        ("### C#\n", (3, "C#")),
        ("\ufeff# a", (1, "a")),
        ("##\n", (2, "")),
        ("####### seven", None),
        ("#hashtag", None),
        (" # indented", None),
    ],
)
def test_a_heading_is_one_to_six_marks_and_a_text(row: str, heading: tuple[int, str] | None) -> None:
    assert heading_of(row) == heading


def test_only_a_line_feed_ends_a_row() -> None:
    assert rows_of("a\r\nb\u2028c\x0cd\re\n\nf") == ["a\r\n", "b\u2028c\x0cd\re\n", "\n", "f"]


def test_a_fence_and_a_comment_hide_what_is_in_them_and_only_that() -> None:
    rows = rows_of("# a\n```\n# b\n~~~\n```\n# c\n<!--\n# d\n-->\n# e\n````\n# f\n```\n# g\n")
    assert [rows[at] for at in part_starts(rows)] == ["# a\n", "# c\n", "# e\n", "# f\n", "# g\n"]


def test_a_unit_is_an_item_or_a_paragraph_with_its_continuation() -> None:
    text = "- a\n  more\n- b\npara\ngraph\n\n---\npara\n```\ncode\n\ncode\n```\n### sub\nlast"
    assert units(rows_of(text)) == [
        "- a\n  more\n",
        "- b\npara\ngraph\n",
        "\n",
        "---\n",
        "para\n",
        "```\ncode\n\ncode\n```\n",
        "### sub\n",
        "last",
    ]


def test_a_row_that_stands_alone_is_no_continuation() -> None:
    assert units(["a\n", "guide\n", "b\n"], ["guide"]) == ["a\n", "guide\n", "b\n"]
