"""Whole documents instead of operations: each takes something away, doubles it, renames it or forges it."""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.support.model_characters import doubled, emptied, inputs_of, lines_of, markdown, prompt_of

_NAMES = (
    "The Phenotype",
    "The Bond",
    "The Niche",
    "Active Context",
    "Crystal Pointers",
    "Curiosity Gaps",
    "Emerging Skills",
)


def _sections(request: dict[str, Any]) -> dict[str, list[str]]:
    """The standing lines by section, the notes among the Active Context."""
    found: dict[str, list[str]] = {name: [] for name in _NAMES}
    for part in re.split(r"^## ", prompt_of(request).split("Inputs:")[0], flags=re.MULTILINE)[1:]:
        name = part.split("\n", 1)[0]
        shaped = {"messages": [{"content": part}]}
        found[name] = [text for _, _, text in lines_of(shaped)]
    found["Active Context"] += [text[:200] for key, _, text in inputs_of(request) if key[0] == "N"]
    return found


def _document(sections: dict[str, list[str]]) -> str:
    rows = ["# Working Memory State", ""]
    for name, texts in sections.items():
        rows += [f"## {name}", "", *(f"- {text}" for text in texts), ""]
    return "\n".join(rows)


def old_document(request: dict[str, Any], _number: int) -> str:
    """The document as it stands: nothing that is new."""
    sections = _sections(request)
    news = {text[:200] for key, _, text in inputs_of(request) if key[0] == "N"}
    return _document({name: [text for text in texts if text not in news] for name, texts in sections.items()})


def without_a_section(request: dict[str, Any], number: int) -> str:
    """All but The Bond."""
    return re.sub(r"## The Bond\n.*?(?=## )", "", markdown(request, number), flags=re.DOTALL)


def one_section(request: dict[str, Any], _number: int) -> str:
    """The Bond alone."""
    return _document({"The Bond": _sections(request)["The Bond"]})


def renamed(request: dict[str, Any], _number: int) -> str:
    """Every section under a name of its own."""
    names = ("Personality", "Friendship", "Economy", "Now", "Pointers", "Questions", "Skills")
    return _document(dict(zip(names, _sections(request).values(), strict=True)))


def homoglyphs(request: dict[str, Any], _number: int) -> str:
    """Names of sections in letters that look alike: T and o are Greek and Cyrillic."""
    table = str.maketrans({"T": "\u03a4", "o": "\u043e", "e": "\u0435", "A": "\u0410"})
    return _document({name.translate(table): texts for name, texts in _sections(request).items()})


def fenced_headings(request: dict[str, Any], _number: int) -> str:
    """Every heading in a fence of its own."""
    rows = []
    for name, texts in _sections(request).items():
        rows += ["```", f"## {name}", "```", *(f"- {text}" for text in texts)]
    return "\n".join(rows)


def other_levels(request: dict[str, Any], number: int) -> str:
    """Headings of the first and third level."""
    text = markdown(request, number)
    return re.sub(r"^## The", "### The", text, flags=re.MULTILINE).replace("## Active", "# Active")


def many_pointers(request: dict[str, Any], _number: int) -> str:
    """Twenty-five pointers in the place of the first twenty-five lines of the Active Context."""
    sections = _sections(request)
    sections["Crystal Pointers"] += [
        f"Topic {at} → search: `{' '.join(text.split()[:3])}`"
        for at, text in enumerate(sections["Active Context"][:25])
    ]
    sections["Active Context"] = sections["Active Context"][25:]
    return _document(sections)


def forged_pointers(request: dict[str, Any], _number: int) -> str:
    """Pointers to nothing in their section, and forged ones among the lines of another."""
    sections = _sections(request)
    sections["Crystal Pointers"] = [f"Everything {at} → search: `nothing {at}`" for at in range(5)]
    sections["The Bond"] = ["The user → search: `the user`", *sections["The Bond"]]
    return _document(sections)


def swapped(request: dict[str, Any], _number: int) -> str:
    """What stood in The Bond stands in the Active Context, and the other way round."""
    sections = _sections(request)
    sections["The Bond"], sections["Active Context"] = sections["Active Context"], sections["The Bond"]
    return _document(sections)


def one_line_each(request: dict[str, Any], _number: int) -> str:
    """Every section as one long line."""
    return _document({name: ["; ".join(texts)] if texts else [] for name, texts in _sections(request).items()})


def summary(request: dict[str, Any], _number: int) -> str:
    """Every section as one short summary."""
    said = {name: [f"{len(texts)} things were noted about the user."] for name, texts in _sections(request).items()}
    return _document(said)


def half_of_it(request: dict[str, Any], _number: int) -> str:
    """Every second line, silently."""
    return _document({name: texts[::2] for name, texts in _sections(request).items()})


def without_one(request: dict[str, Any], _number: int) -> str:
    """All but the first line of the Active Context: one a dream."""
    sections = _sections(request)
    sections["Active Context"] = sections["Active Context"][1:]
    return _document(sections)


def placeholders(_request: dict[str, Any], _number: int) -> str:
    """Seven sections of a template."""
    return _document({name: ["TBD", "[your text here]", "_Nothing yet._"] for name in _NAMES})


def numbered_and_quoted(request: dict[str, Any], _number: int) -> str:
    """The lines with the marks of the prompt: ids and quotation marks."""
    sections = _sections(request)
    return _document(
        {name: [f"L{at}: {json.dumps(text)}" for at, text in enumerate(texts, 1)] for name, texts in sections.items()}
    )


def shouting(request: dict[str, Any], _number: int) -> str:
    """Everything in capitals, with exclamation marks."""
    return _document({name: [f"{text.upper()}!!!" for text in texts] for name, texts in _sections(request).items()})


def translated(request: dict[str, Any], _number: int) -> str:
    """Every line in another language, all of them the same."""
    return _document(
        {name: ["利用者はお茶が好きです。" for _ in texts] for name, texts in _sections(request).items()}
    )


KINDS: tuple[Callable[[dict[str, Any], int], str], ...] = (
    emptied,
    doubled,
    old_document,
    without_a_section,
    one_section,
    renamed,
    homoglyphs,
    fenced_headings,
    other_levels,
    many_pointers,
    forged_pointers,
    swapped,
    one_line_each,
    summary,
    half_of_it,
    without_one,
    placeholders,
    numbered_and_quoted,
    shouting,
    translated,
)
