"""Parts between brackets: how a member or an item is put in or taken out, the same in JSON and TOML."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from daemon.connect.editors.splices import Splice

# The text of a part: on one line for None, otherwise lines of which all but the first begin with this indentation.
Write = Callable[[str | None], str]


@dataclass(frozen=True)
class Node:
    """A value: from `start` to `end`; `parts` are those of an object or array, whose bracket `opening` is."""

    start: int
    end: int
    value: object = None
    opening: str = ""
    parts: tuple["Part", ...] = ()

    def last(self, name: str) -> int | None:
        """The number of the member of this name that counts: the last one."""
        return next((number for number, part in reversed([*enumerate(self.parts)]) if part.name == name), None)


@dataclass(frozen=True)
class Part:
    """A member of an object, or an item of an array, whose name is None; with its name it begins at `start`.

    `before` is where the bracket, comma or comment before it ends; `comma` where the comma after it ends, if one is.
    """

    start: int
    node: Node
    before: int
    is_after_line_comment: bool
    name: str | None = None
    comma: int | None = None


@dataclass(frozen=True)
class Layout:
    """How a text is laid out: its comments, of which those that begin with `line_comment` end with their line.

    `unit` is by how much more its lines are indented at each level, None where everything goes on one line.
    """

    comment: re.Pattern[str]
    line_comment: str
    line_end: str
    unit: str | None


def inserted(text: str, node: Node, write: Write, layout: Layout) -> list[Splice]:
    """What puts a part in as the last one, on a line of its own if the one before is."""
    if not node.parts:
        return [_only(text, node, write, layout)]
    last = node.parts[-1]
    place = last.comma or last.node.end
    comma = "," if last.comma else ""
    lead = [] if last.comma else [Splice(place, place, ",")]
    indent = text[text.rfind("\n", 0, last.start) + 1 : last.start]
    if indent.strip(" \t") or "\n" not in text[node.start : last.start]:
        return [*lead, Splice(place, place, f" {write(None)}{comma}")]
    # A comment behind the last part, on its line, belongs to that part.
    for comment in layout.comment.finditer(text, place, node.end - 1):
        if "\n" in text[place : comment.start()]:
            break
        place = comment.end()
    return [*lead, Splice(place, place, f"{layout.line_end}{indent}{write(indent)}{comma}")]


def _only(text: str, node: Node, write: Write, layout: Layout) -> Splice:
    """What puts a part between brackets that have at most comments between them."""
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    comments = list(layout.comment.finditer(text, node.start + 1, node.end - 1))
    if comments:
        place = comments[-1].end()
        if "\n" not in text[place : node.end]:
            return Splice(place, place, f" {write(None)}")
        indent = outer + (layout.unit or "  ")
        return Splice(place, place, f"{layout.line_end}{indent}{write(indent)}")
    if layout.unit is None:
        return Splice(node.start + 1, node.end - 1, write(None))
    indent = outer + layout.unit
    inside = f"{layout.line_end}{indent}{write(indent)}{layout.line_end}{outer}"
    return Splice(node.start + 1, node.end - 1, inside)


def removed(text: str, node: Node, number: int, layout: Layout) -> list[Splice]:
    """What takes this part out with its comma; of the last one also the comma before it, if it has none itself."""
    part, end = node.parts[number], node.end - 1
    if len(node.parts) == 1 and is_bare(text, node, layout):
        return [Splice(node.start + 1, end)]
    after = part.comma or part.node.end
    start = part.before
    # A comment before it that ends with its line must not take in what follows.
    follows = _after_blanks(text, after)
    if part.is_after_line_comment and not text.startswith(("\n", "\r", layout.line_comment), follows):
        start = part.start
    commas = [Splice(part.comma - 1, part.comma)] if part.comma else []
    if number == len(node.parts) - 1:
        previous = node.parts[number - 1].comma if number else None
        if previous and not part.comma:
            commas = [Splice(previous - 1, previous)]
    elif "\n" not in text[part.before : part.start]:
        start = part.start
        commas = [Splice(after - 1, follows)]
    return [*commas, Splice(start, part.node.end)]


def is_bare(text: str, node: Node, layout: Layout) -> bool:
    """Whether no comment stands between the brackets, outside of the parts."""
    places = [node.start + 1, *(place for part in node.parts for place in (part.start, part.node.end)), node.end - 1]
    return not any(
        layout.comment.search(text, start, end) for start, end in zip(places[::2], places[1::2], strict=True)
    )


def _after_blanks(text: str, place: int) -> int:
    while text.startswith((" ", "\t"), place):
        place += 1
    return place
