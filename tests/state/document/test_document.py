"""MEMORY.md by example."""

from datetime import UTC, datetime

import pytest

from state.document.document import Edit, blank, complete, parse, render, stamp, stamped
from state.document.editing import edited
from state.document.sections import NO_FEED, PLACEHOLDER, POINTER_GUIDE, SKILL_GUIDE, SectionName, is_placeholder

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
MEMORY = """\
# Working Memory State

_Last dream: 2026-03-11T09:00:00Z | Mood: calm_

## The Phenotype

- Careful with migrations.

## The Bond (Oxytocin-Weighted)

* Anna prefers short answers.
* Anna lives in Bonn.
  She moved there in 2024.

A paragraph about trust.

## The Niche

_No economics feed yet (memory/economics.json)._

## My own section

Mine alone.

## Active Context

- Ship release 1.4 by Friday. 📌

### Frictions

- The CI is slow.

---

## Crystal Pointers

_Use memory_search if one of these topics comes up:_

- CORS debugging → search: `cors eigentrust bridge`

## Curiosity Gaps

_Nothing yet._

## Emerging Skills

_Patterns detected from repeated tasks, before they are skills:_

- Refactoring → Confidence: 80% | Occurrences: 4
"""


def texts_of(text: str, name: SectionName) -> list[str]:
    part = parse(text).section(name)
    assert part is not None
    return [block.text for block in part.lines]


def after(text: str, *edits: Edit) -> str:
    document, left_out = edited(parse(text), edits)
    assert left_out == ()
    return render(document)


def test_the_sections_and_their_lines_are_read() -> None:
    document = parse(MEMORY)
    assert document.has_schema
    assert document.missing == ()
    assert document.doubled == ()
    assert [name for name, _ in document.lines()].count(SectionName.BOND) == 3
    assert texts_of(MEMORY, SectionName.BOND) == [
        "Anna prefers short answers.",
        "Anna lives in Bonn. She moved there in 2024.",
        "A paragraph about trust.",
    ]
    assert texts_of(MEMORY, SectionName.GAPS) == []
    assert texts_of(MEMORY, SectionName.POINTERS) == ["CORS debugging → search: `cors eigentrust bridge`"]


BOND = SectionName.BOND
CODE = "```python\ndef f():\n    x = 1\n\n    return x\n```"


@pytest.mark.parametrize(
    ("text", "section", "lines"),
    [
        (MEMORY, SectionName.CONTEXT, ["Ship release 1.4 by Friday.", "The CI is slow."]),  # no subheading, no rule
        ("<!-- hint\nover rows -->\n***\n- a\n", BOND, ["a"]),
        ("<!-- pinned --> Anna is vegetarian.\n", BOND, ["Anna is vegetarian."]),
        ("<!-- hint --> Anna.\n", BOND, ["<!-- hint --> Anna."]),
        ("```code``` is inline\n## The Niche\n- b\n", SectionName.NICHE, ["b"]),
        (f"\n{CODE}\n", BOND, [CODE]),
        ("- a\n  - b\n\t- c\n- d\n", BOND, ["a - b - c", "d"]),
        ("- <!-- pin --> a\n", BOND, ["a"]),
        ("- 📌\n", BOND, []),
        ("- a\n## The Bond\n- b\n", BOND, ["a"]),  # the second one is the human's text
        ("- old\n\n# Working Memory State\n\n## The Bond\n- a\n", BOND, ["a"]),  # and so is what is above the title
        ("- c\n<!--\n## The Niche\n- an example\n-->\n## The Niche\n- real\n", SectionName.NICHE, ["real"]),
        ("Last dream: the user dreamt of the sea.\n", BOND, ["Last dream: the user dreamt of the sea."]),
        *((f"{empty}\n", BOND, []) for empty in ("- ", "*", "+ ", "1.", "- \u200b", "TBD", "- [ ]")),
    ],
)
def test_what_a_section_says(text: str, section: SectionName, lines: list[str]) -> None:
    whole = text if text is MEMORY else f"## The Bond\n{text}"
    document = parse(whole)
    assert [block.text for name, block in document.lines() if name is section] == lines
    assert render(document) == whole
    assert document.doubled == ((BOND,) if "## The Bond" in text and text is not MEMORY else ())


def test_a_humans_section_is_none_of_the_seven_and_pins_are_seen() -> None:
    document = parse(MEMORY)
    (own,) = [part for part in document.parts if part.heading.startswith("## My own")]
    assert own.name is None
    assert "Mine alone." not in [block.text for _, block in document.lines()]
    assert [block.text for _, block in document.lines() if block.pinned] == ["Ship release 1.4 by Friday."]


@pytest.mark.parametrize(
    "heading",
    [
        "## The Bond",
        "## the bond",
        "## The Bond (Oxytocin-Weighted)",
        "## The Bond (who (really) is it)",
        "## **The Bond**",
        "## __The Bond__ (x)",
        "## The  Bond:",
        "##\tThe Bond ##",
        "## The Bond\r",
    ],
)
def test_a_heading_is_read_in_many_forms(heading: str) -> None:
    assert parse(f"{heading}\n- a\n").section(SectionName.BOND) is not None


@pytest.mark.parametrize(
    "row",
    ["# The Bond", "### The Bond", "##The Bond", "    ## The Bond", "The Bond", "## The Bondage", "\\## The Bond"],
)
def test_only_a_heading_of_level_two_begins_a_section(row: str) -> None:
    assert parse(f"{row}\n- a\n").section(SectionName.BOND) is None


@pytest.mark.parametrize("fence", ["```", "~~~~", "```markdown", "- ```", "  ```"])
def test_a_heading_in_a_fence_is_none(fence: str) -> None:
    closing = fence.removeprefix("- ").replace("markdown", "").strip()
    text = f"## The Bond\n{fence}\n## The Niche\n{closing}\n## The Phenotype\n- me\n"
    document = parse(text)
    assert document.section(SectionName.NICHE) is None
    assert document.section(SectionName.PHENOTYPE) is not None


def test_a_fence_that_is_never_closed_hides_nothing() -> None:
    text = "## The Bond\n- a\n```python\n## The Niche\n- b\n"
    assert parse(text).missing == tuple(name for name in SectionName if name.value not in {"The Bond", "The Niche"})
    assert complete(parse(render(complete(parse(text))))) == complete(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        PLACEHOLDER,
        NO_FEED,
        POINTER_GUIDE,
        SKILL_GUIDE,
        "_None yet._",
        "- TBD",
        "(no open questions yet)",
        "n/a",
        "{topic}",
        "- ",
        "*",
        "+",
        "…",
        "[placeholder]",
        "To be filled in",
        "",
    ],
)
def test_a_placeholder_says_nothing(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        "---",
        "* * *",
        "Placeholder images must be replaced before launch",
        "To be added by Friday: the invoice of March",
        "No deployments on Fridays, not yet anyway",
        "Unknown callers are ignored",
        '{"port": 8080}',
        "Nothing yet was decided about the port",
        "Empty the cache before each test",
        "- a",
    ],
)
def test_what_a_human_may_mean_is_no_placeholder(text: str) -> None:
    assert not is_placeholder(text)


NESTED = "## The Bond\n\n- a\n\n  + b\n"
OLD = f"Old notes.\n\n- Use tabs.\n\n---\n\n{MEMORY}"
TRUST, SHORT, BONN = (
    *("A paragraph about trust.", "Anna prefers short answers."),
    "Anna lives in Bonn. She moved there in 2024.",
)


@pytest.mark.parametrize(
    ("text", "edit", "old", "new"),
    [
        (MEMORY, Edit(BOND, (), "Anna plays chess."), f"{TRUST}\n", f"{TRUST}\n\n* Anna plays chess.\n"),
        (MEMORY, Edit(SectionName.GAPS, (), "Why is CI slow?"), "_Nothing yet._", "- Why is CI slow?"),
        (MEMORY, Edit(SectionName.CONTEXT, (), "A"), "---\n\n## Crystal", "---\n\n- A\n\n## Crystal"),
        (MEMORY, Edit(SectionName.SKILLS, (), "B"), "Occurrences: 4\n", "Occurrences: 4\n- B\n\n"),
        (MEMORY, Edit(BOND, (SHORT,), "Anna likes detail."), SHORT, "Anna likes detail."),
        (MEMORY, Edit(BOND, (TRUST,), "Trust grew."), TRUST, "Trust grew."),
        (MEMORY, Edit(BOND, (TRUST,), None), f"{TRUST}\n\n", ""),
        (
            MEMORY,
            Edit(BOND, (BONN, SHORT), "One"),
            f"{SHORT}\n* Anna lives in Bonn.\n  She moved there in 2024.",
            "One",
        ),
        (
            MEMORY,
            Edit(SectionName.PHENOTYPE, ("Careful with migrations.",), None),
            "- Careful with migrations.",
            "_Nothing yet._",
        ),
        (NESTED, Edit(BOND, ("b",), "c"), "+ b", "+ c"),
        ("## The Bond\n\nTrust.\n", Edit(BOND, ("Trust.",), "1. Trust"), "Trust.", "- 1. Trust"),
        (OLD, Edit(None, ("Use tabs.",), None), "- Use tabs.\n\n", ""),
    ],
)
def test_an_edit_keeps_the_form_of_what_stands(text: str, edit: Edit, old: str, new: str) -> None:
    assert after(text, edit) == text.replace(old, new)
    crlf, expected = (one.replace("\n", "\r\n") for one in (text, text.replace(old, new)))
    assert after(crlf, edit) == expected


@pytest.mark.parametrize(
    "edit",
    [
        Edit(BOND, (SHORT, "a line that was never there"), "merged"),
        Edit(BOND, (), "anna  PREFERS short\u200b answers."),
        Edit(None, (SHORT,), None),
    ],
)
def test_an_edit_of_what_is_gone_and_an_addition_that_stands_are_left_out(edit: Edit) -> None:
    document, left_out = edited(parse(MEMORY), [edit])
    assert (left_out, render(document)) == ((edit,), MEMORY)


def test_the_stamp_says_when_and_how_it_felt_and_words_beside_it_are_the_humans() -> None:
    assert stamp(NOW, "energized, alert") == "_Last dream: 2026-03-12T14:30:00Z | Mood: energized, alert_"
    text = "# Working Memory State\nabove\n_Last dream: never | Mood: calm_\nbelow\n\n## The Bond\n- a\n"
    assert render(stamped(parse(text), NOW, "calm")) == text.replace("never", "2026-03-12T14:30:00Z")


def test_missing_sections_come_back_in_their_place_and_four_or_the_title_are_a_schema() -> None:
    text = MEMORY.replace("## The Niche\n\n_No economics feed yet (memory/economics.json)._\n\n", "")
    assert render(complete(parse(text))) == MEMORY
    names = [f"## {name.value}\n" for name in SectionName]
    assert [parse("".join(names[:count])).has_schema for count in (3, 4)] == [False, True]
    assert [parse(one).has_schema for one in ("# Working Memory State\n", "# My notes\n- a\n")] == [True, False]
    assert "\n" not in render(blank("\r\n")).replace("\r\n", "")


@pytest.mark.parametrize("name", SectionName)
def test_a_line_typed_right_above_a_placeholder_is_that_line_alone(name: SectionName) -> None:
    heading = f"## {name.value}\n\n"
    text = render(blank()).replace(heading, f"{heading}- Ada's sister is called Grace\n", 1)
    assert [block.text for _, block in parse(text).lines()] == ["Ada's sister is called Grace"]
