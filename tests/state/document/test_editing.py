"""Edits of the owner's text above the title, and additions that stand first."""

import pytest

from state.document.document import Edit, SectionName, blank, parse, render
from state.document.editing import edited
from state.document.merge import working
from state.document.seed import split_seed

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
