"""Edits of the owner's text above the title, additions that stand first, and pins."""

import pytest
from hypothesis import given

from state.document.document import Edit, SectionName, blank, parse, render
from state.document.editing import edited
from state.document.merge import working
from state.document.seed import split_seed
from tests.support.documents import any_text
from tests.support.long_variants import examples

OWNERS = (
    "# Mine\n\n## People\n\n- Ada runs the lab.\n- Bert is away.\n\n"
    "### Guests\n\n* Cleo\n\n## Empty\n\n## Build\n- make check\n"
)


def above(text: str, *leaving: str) -> str:
    document, left_out = edited(working(text), [Edit(None, (one,), None) for one in leaving])
    assert left_out == ()
    parts = split_seed(render(document))
    assert parts is not None
    assert render(parse(render(document))) == render(document)
    return parts[0]


@pytest.mark.parametrize(
    ("leaving", "left"),
    [
        (["Bert is away."], OWNERS.replace("- Bert is away.\n", "")),
        (["Cleo"], OWNERS.replace("### Guests\n\n* Cleo\n\n", "")),
        (["make check"], OWNERS.replace("## Build\n- make check\n", "")),
        (["Ada runs the lab.", "Bert is away."], OWNERS.replace("- Ada runs the lab.\n- Bert is away.\n\n", "")),
        (["Ada runs the lab.", "Cleo", "Bert is away."], "# Mine\n\n## Empty\n\n## Build\n- make check\n"),
    ],
)
def test_a_heading_above_the_rule_goes_with_the_last_text_under_it(leaving: list[str], left: str) -> None:
    assert above(OWNERS, *leaving).rstrip("\n") == left.rstrip("\n")


def test_an_addition_may_stand_first_but_under_no_heading_of_the_owners() -> None:
    document, _ = edited(blank(), [Edit(SectionName.CONTEXT, (), text, first=True) for text in ("one", "two")])
    assert "## Active Context\n\n- two\n- one\n" in render(document)
    mine = render(document).replace("- two", "### Mine\n\n- two")
    after = render(edited(parse(mine), [Edit(SectionName.CONTEXT, (), "three", first=True)])[0])
    assert "### Mine\n\n- two\n- one\n- three\n" in after


@examples(200)
@given(any_text)
def test_a_pin_changes_the_bytes_of_its_line_alone_and_is_taken_back(text: str) -> None:
    document = parse(text)
    for name, block in document.lines():
        twins = sum(other.key == block.key for _, other in document.lines())
        pin = Edit(name, (block.text,), pinned=not block.pinned)
        after, left_out = edited(document, [pin])
        if left_out or twins > 1:
            continue
        read = parse(render(after))
        assert [(where, one.text) for where, one in read.lines()] == [
            (where, one.text) for where, one in document.lines()
        ]
        changed = [
            (one, other) for (_, one), (_, other) in zip(document.lines(), read.lines(), strict=True) if one != other
        ]
        assert [(one.pinned, other.pinned) for one, other in changed] == [(block.pinned, not block.pinned)]
        assert edited(after, [pin])[1] == (pin,)
        if not block.pinned:
            back, _ = edited(after, [Edit(name, (block.text,), pinned=False)])
            assert render(back) == render(document)


@pytest.mark.parametrize(
    ("row", "pinned"),
    [
        ("- Ada plays chess\n", "- Ada plays chess 📌\n"),
        ("Ada plays\nchess\n", "Ada plays 📌\nchess\n"),
        ("* Ada plays  \r\n  chess\r\n", "* Ada plays 📌  \r\n  chess\r\n"),
        ("```python\nchess()\n```\n", "```python 📌\nchess()\n```\n"),
    ],
)
def test_a_pin_stands_at_the_end_of_the_first_row(row: str, pinned: str) -> None:
    document = parse(f"## The Bond\n\n{row}")
    ((name, block),) = document.lines()
    after, _ = edited(document, [Edit(name, (block.text,), pinned=True)])
    assert render(after) == f"## The Bond\n\n{pinned}"
