"""Whole documents instead of operations: each takes something away, doubles it, renames it or forges it."""

import json
import re
from collections.abc import Callable

from tests.support.gallery.kinds import Kind, Request, named
from tests.support.model_characters import doubled, emptied, inputs_of, lines_of, markdown, prompt_of

Sections = dict[str, list[str]]
_NAMES = (
    *("The Phenotype", "The Bond", "The Niche", "Active Context", "Crystal Pointers", "Curiosity Gaps"),
    "Emerging Skills",
)
_OTHERS = ("Personality", "Friendship", "Economy", "Now", "Pointers", "Questions", "Skills")
_ALIKE = str.maketrans({"T": "\u03a4", "o": "\u043e", "e": "\u0435", "A": "\u0410"})


def _news(request: Request) -> list[str]:
    return [text[:200] for key, _, text in inputs_of(request) if key[0] == "N"]


def _sections(request: Request) -> Sections:
    """The standing lines by section, the notes among the Active Context."""
    found: Sections = {name: [] for name in _NAMES}
    for part in re.split(r"^## ", prompt_of(request).split("Inputs:")[0], flags=re.MULTILINE)[1:]:
        shaped = {"messages": [{}, {"content": part}]}
        found[part.split("\n", 1)[0]] = [text for _, _, text in lines_of(shaped)]
    found["Active Context"] += _news(request)
    return found


def _document(sections: Sections) -> str:
    rows = ["# Working Memory State", ""]
    for name, texts in sections.items():
        rows += [f"## {name}", "", *(f"- {text}" for text in texts), ""]
    return "\n".join(rows)


def _each(change: Callable[[list[str]], list[str]]) -> Callable[[Sections], Sections]:
    return lambda found: {name: change(texts) for name, texts in found.items()}


def _many_pointers(found: Sections) -> Sections:
    context = found["Active Context"]
    made = [f"Topic {at} → search: `{' '.join(text.split()[:3])}`" for at, text in enumerate(context[:25])]
    pointers = [*found["Crystal Pointers"], *made]
    return {**found, "Crystal Pointers": pointers, "Active Context": context[25:]}


_TABLE: dict[str, Callable[[Sections], Sections]] = {
    "one section: The Bond alone.": lambda found: {"The Bond": found["The Bond"]},
    "renamed: Every section under a name of its own.": lambda found: dict(zip(_OTHERS, found.values(), strict=True)),
    "homoglyphs: Names of sections in letters that look alike, Greek and Cyrillic.": lambda found: {
        name.translate(_ALIKE): texts for name, texts in found.items()
    },
    "many pointers: Pointers in the place of the first 25 lines of the Active Context.": _many_pointers,
    "forged pointers: Pointers to nothing, and forged ones among the lines of another section.": lambda found: {
        **found,
        "Crystal Pointers": [f"Everything {at} → search: `nothing {at}`" for at in range(5)],
        "The Bond": ["The user → search: `the user`", *found["The Bond"]],
    },
    "swapped: What stood in The Bond stands in the Active Context, and the other way round.": lambda found: {
        **found,
        "The Bond": found["Active Context"],
        "Active Context": found["The Bond"],
    },
    "one line each: Every section as one long line.": _each(lambda texts: ["; ".join(texts)] if texts else []),
    "summary: Every section as one short summary.": _each(
        lambda texts: [f"{len(texts)} things were noted about the user."]
    ),
    "half of it: Every second line, silently.": _each(lambda texts: texts[::2]),
    "without one: All but the first line of the Active Context: one a dream.": lambda found: {
        **found,
        "Active Context": found["Active Context"][1:],
    },
    "placeholders: Seven sections of a template.": _each(lambda _: ["TBD", "[your text here]", "_Nothing yet._"]),
    "numbered and quoted: The lines with the marks of the prompt: ids and quotation marks.": _each(
        lambda texts: [f"L{at}: {json.dumps(text)}" for at, text in enumerate(texts, 1)]
    ),
    "shouting: Everything in capitals, with exclamation marks.": _each(
        lambda texts: [f"{text.upper()}!!!" for text in texts]
    ),
    "translated: Every line in another language, all of them the same.": _each(
        lambda texts: ["利用者はお茶が好きです。"] * len(texts)
    ),
}


def old_document(request: Request, _number: int) -> str:
    """The document as it stands: nothing that is new."""
    news = _news(request)
    return _document(_each(lambda texts: [text for text in texts if text not in news])(_sections(request)))


def without_a_section(request: Request, number: int) -> str:
    """All but The Bond."""
    return re.sub(r"## The Bond\n.*?(?=## )", "", markdown(request, number), flags=re.DOTALL)


def fenced_headings(request: Request, _number: int) -> str:
    """Every heading in a fence of its own."""
    rows = []
    for name, texts in _sections(request).items():
        rows += ["```", f"## {name}", "```", *(f"- {text}" for text in texts)]
    return "\n".join(rows)


def other_levels(request: Request, number: int) -> str:
    """Headings of the first and third level."""
    text = markdown(request, number)
    return re.sub(r"^## The", "### The", text, flags=re.MULTILINE).replace("## Active", "# Active")


def _written(row: str, change: Callable[[Sections], Sections]) -> Kind:
    return named(row, lambda request, _number: _document(change(_sections(request))))


KINDS: tuple[Kind, ...] = (
    *(emptied, doubled, old_document, without_a_section, fenced_headings, other_levels),
    *(_written(row, change) for row, change in _TABLE.items()),
)
