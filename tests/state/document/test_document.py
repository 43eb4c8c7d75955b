"""MEMORY.md by example."""

from datetime import UTC, datetime

import pytest

from state.document.document import (
    NO_FEED,
    PLACEHOLDER,
    POINTER_GUIDE,
    SKILL_GUIDE,
    Edit,
    SectionName,
    blank,
    complete,
    is_placeholder,
    parse,
    render,
    stamp,
    stamped,
)
from state.document.editing import edited

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


def test_a_humans_section_is_none_of_the_seven_and_stays_where_it_is() -> None:
    document = parse(MEMORY)
    (own,) = [part for part in document.parts if part.heading.startswith("## My own")]
    assert own.name is None
    assert "Mine alone." not in [block.text for _, block in document.lines()]
    assert render(document).index("Mine alone.") < render(document).index("## Active Context")


def test_subheadings_rules_and_comments_are_no_lines() -> None:
    assert texts_of(MEMORY, SectionName.CONTEXT) == ["Ship release 1.4 by Friday.", "The CI is slow."]
    assert texts_of("## The Bond\n<!-- hint\nover rows -->\n***\n- a\n", SectionName.BOND) == ["a"]


def test_a_paragraph_behind_a_comment_is_a_line() -> None:
    assert texts_of("## The Bond\n<!-- pinned --> Anna is vegetarian.\n", SectionName.BOND) == ["Anna is vegetarian."]
    assert texts_of("## The Bond\n<!-- hint --> Anna.\n", SectionName.BOND) == ["<!-- hint --> Anna."]


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


def test_a_comment_hides_the_headings_in_it() -> None:
    text = "<!--\n## The Bond\n- an example\n-->\n## The Bond\n- real\n"
    assert parse(text).doubled == ()
    assert texts_of(text, SectionName.BOND) == ["real"]


def test_code_in_backticks_at_the_start_of_a_row_opens_no_fence() -> None:
    text = "## The Bond\n```code``` is inline\n## The Niche\n- b\n"
    assert texts_of(text, SectionName.NICHE) == ["b"]


def test_a_code_block_keeps_its_indentation_and_blank_rows() -> None:
    code = "```python\ndef f():\n    x = 1\n\n    return x\n```"
    assert texts_of(f"## The Bond\n\n{code}\n", SectionName.BOND) == [code]
    there = after(render(blank()), Edit(SectionName.BOND, (), code), Edit(SectionName.GAPS, (), "b"))
    assert texts_of(there, SectionName.BOND) == [code]
    assert texts_of(there, SectionName.GAPS) == ["b"]
    assert parse(there).missing == ()


def test_a_second_heading_of_a_section_is_kept_as_the_humans_text() -> None:
    document = parse("## The Bond\n- a\n## The Bond\n- b\n")
    assert document.doubled == (SectionName.BOND,)
    assert [block.text for _, block in document.lines()] == ["a"]
    assert render(document) == "## The Bond\n- a\n## The Bond\n- b\n"


def test_what_stands_above_the_title_is_the_humans() -> None:
    document = parse("## The Bond\n- old notes\n\n# Working Memory State\n\n## The Bond\n- a\n")
    assert [block.text for _, block in document.lines()] == ["a"]


def test_a_nested_item_belongs_to_the_item_above_it() -> None:
    assert texts_of("## The Bond\n- a\n  - b\n\t- c\n- d\n", SectionName.BOND) == ["a - b - c", "d"]


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


@pytest.mark.parametrize("text", ["- ", "*", "+ ", "1.", "- \u200b", "TBD", "- [ ]"])
def test_an_empty_item_is_no_line(text: str) -> None:
    assert texts_of(f"## The Bond\n{text}\n", SectionName.BOND) == []


def test_pins_are_seen_and_are_no_part_of_the_text() -> None:
    pinned = [block.text for _, block in parse(MEMORY).lines() if block.pinned]
    assert pinned == ["Ship release 1.4 by Friday."]
    (block,) = [block for _, block in parse("## The Bond\n- <!-- pin --> a\n").lines()]
    assert (block.pinned, block.text) == (True, "a")
    assert texts_of("## The Bond\n- 📌\n", SectionName.BOND) == []


def test_an_addition_takes_the_bullet_of_the_section_and_the_newline_of_the_file() -> None:
    assert after(MEMORY, Edit(SectionName.BOND, (), "Anna plays chess.")) == MEMORY.replace(
        "A paragraph about trust.\n", "A paragraph about trust.\n\n* Anna plays chess.\n"
    )
    crlf = MEMORY.replace("\n", "\r\n")
    assert after(crlf, Edit(SectionName.PHENOTYPE, (), "New.")) == crlf.replace(
        "- Careful with migrations.\r\n", "- Careful with migrations.\r\n- New.\r\n"
    )


def test_an_addition_takes_the_place_of_the_placeholder() -> None:
    assert after(MEMORY, Edit(SectionName.GAPS, (), "Why is CI slow?")) == MEMORY.replace(
        "_Nothing yet._", "- Why is CI slow?"
    )


def test_a_rule_and_a_guide_outlive_an_addition() -> None:
    text = after(
        MEMORY,
        Edit(SectionName.CONTEXT, (), "A"),
        Edit(SectionName.SKILLS, (), "B"),
        Edit(SectionName.POINTERS, (), "C"),
    )
    assert text.count("\n---\n") == 1
    assert SKILL_GUIDE in text
    assert POINTER_GUIDE in text


def test_a_revision_keeps_the_form_of_the_line() -> None:
    assert after(MEMORY, Edit(SectionName.BOND, ("Anna prefers short answers.",), "Anna likes detail.")) == (
        MEMORY.replace("* Anna prefers short answers.", "* Anna likes detail.")
    )
    assert after(MEMORY, Edit(SectionName.BOND, ("A paragraph about trust.",), "Trust grew.")) == MEMORY.replace(
        "A paragraph about trust.", "Trust grew."
    )
    nested = "## The Bond\n\n- a\n\n  + b\n"
    assert after(nested, Edit(SectionName.BOND, ("b",), "c")) == "## The Bond\n\n- a\n\n  + c\n"


def test_a_paragraph_that_would_become_an_item_becomes_one_with_the_whole_text() -> None:
    text = after("## The Bond\n\nTrust.\n", Edit(SectionName.BOND, ("Trust.",), "1. Trust"))
    assert texts_of(text, SectionName.BOND) == ["1. Trust"]


def test_a_merge_stands_in_the_place_of_the_first_line() -> None:
    edit = Edit(
        SectionName.BOND, ("Anna lives in Bonn. She moved there in 2024.", "Anna prefers short answers."), "One"
    )
    assert texts_of(after(MEMORY, edit), SectionName.BOND) == ["One", "A paragraph about trust."]


def test_a_removed_paragraph_leaves_one_blank_row() -> None:
    text = after(MEMORY, Edit(SectionName.BOND, ("A paragraph about trust.",), None))
    assert text == MEMORY.replace("A paragraph about trust.\n\n", "")


def test_a_section_that_is_emptied_says_so() -> None:
    text = after(MEMORY, Edit(SectionName.PHENOTYPE, ("Careful with migrations.",), None))
    assert "## The Phenotype\n\n_Nothing yet._\n\n## The Bond" in text


def test_an_edit_of_a_line_that_is_gone_is_left_out() -> None:
    edit = Edit(SectionName.BOND, ("Anna prefers short answers.", "a line that was never there"), "merged")
    document, left_out = edited(parse(MEMORY), [edit])
    assert left_out == (edit,)
    assert render(document) == MEMORY


def test_an_addition_that_stands_there_in_another_spelling_is_left_out() -> None:
    edit = Edit(SectionName.BOND, (), "anna  PREFERS short\u200b answers.")
    assert edited(parse(MEMORY), [edit])[1] == (edit,)


def test_a_line_above_the_title_can_leave() -> None:
    text = f"Old notes.\n\n- Use tabs.\n\n---\n\n{MEMORY}"
    assert after(text, Edit(None, ("Use tabs.",), None)) == text.replace("- Use tabs.\n\n", "")
    edit = Edit(None, ("Anna prefers short answers.",), None)
    assert edited(parse(text), [edit])[1] == (edit,)


def test_the_stamp_says_when_and_how_it_felt() -> None:
    assert stamp(NOW, "energized, alert") == "_Last dream: 2026-03-12T14:30:00Z | Mood: energized, alert_"
    assert render(stamped(parse(MEMORY), NOW, "calm")) == MEMORY.replace(
        "2026-03-11T09:00:00Z", "2026-03-12T14:30:00Z"
    )


def test_words_beside_the_stamp_are_the_humans() -> None:
    text = "# Working Memory State\nabove\n_Last dream: never | Mood: calm_\nbelow\n\n## The Bond\n- a\n"
    assert render(stamped(parse(text), NOW, "calm")) == text.replace("never", "2026-03-12T14:30:00Z")


def test_a_line_about_a_dream_is_no_stamp() -> None:
    assert texts_of("## The Bond\nLast dream: the user dreamt of the sea.\n", SectionName.BOND) == [
        "Last dream: the user dreamt of the sea."
    ]


def test_a_blank_document_has_the_seven_sections_and_no_substance() -> None:
    document = blank("\r\n")
    assert [part.name for part in document.parts if part.name] == list(SectionName)
    assert list(document.lines()) == []
    assert "\n" not in render(document).replace("\r\n", "")


def test_missing_sections_come_back_in_their_place() -> None:
    text = MEMORY.replace("## The Niche\n\n_No economics feed yet (memory/economics.json)._\n\n", "")
    assert render(complete(parse(text))) == MEMORY


def test_most_of_the_sections_or_the_title_are_a_schema() -> None:
    names = [f"## {name.value}\n" for name in SectionName]
    assert parse("".join(names[:4])).has_schema
    assert not parse("".join(names[:3])).has_schema
    assert parse("# Working Memory State\n").has_schema
    assert not parse("# My notes\n- a\n").has_schema


@pytest.mark.parametrize(
    "row",
    [
        "-" * 50_000 + "x",
        "# a" + " " * 50_000 + "b",
        "(" * 50_000,
        "\n".join(f"```{i}" for i in range(5_000)),
        "\n".join("<!--" for _ in range(5_000)),
        "\n".join(f"## {i}" for i in range(5_000)) + "\n# Working Memory State",
        "- " * 25_000 + "x",
    ],
)
def test_no_text_is_slow_to_read(row: str) -> None:
    # Reading that takes quadratic time here takes minutes, and the limit of a test ends it.
    text = f"## The Bond\n{row}\n"
    assert render(parse(text)) == text
