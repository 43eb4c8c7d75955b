"""JSON with comments and trailing commas, edited in place: an `Editor` (editor.py) for the files of most agents."""

import json
from collections.abc import Callable

from daemon.connect.editors.jsonc_reader import COMMENT, KIND, root_of
from daemon.connect.editors.parts import Layout, Node, inserted, is_bare, removed
from daemon.connect.editors.splices import (
    BOM,
    Path,
    Splice,
    body_start,
    checked,
    checked_value,
    chosen_by,
    has_member,
    is_same,
    items_of,
    line_end_of,
    member_of,
    nested,
    proven,
    pruned,
    spliced,
    with_member,
    without_member,
)

_UNIT = "  "


def parse(text: str) -> dict[str, object]:
    """What every reader of the text reads; raises DocumentError where it is broken."""
    try:  # Plain JSON, which the file of a program may have a megabyte of, is read a hundred times as fast.
        contents = json.loads(checked(KIND, text).removeprefix(BOM), parse_constant=_refused)
    except (ValueError, RecursionError):
        contents = None
    if not isinstance(contents, dict):
        root = root_of(text)
        contents = root.value if root else {}
        assert isinstance(contents, dict)
    return contents


def _refused(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def is_empty(text: str) -> bool:
    """Whether there is no member and no comment."""
    return not parse(text) and not COMMENT.search(text)


def with_value(text: str, path: Path, value: object) -> str:
    """The text with this value there."""
    checked_value(value, path)
    before = parse(text)
    if has_member(before, path) and is_same(member_of(before, path), value):
        return text
    return proven(parse, _with_value(text, path, value), with_member(before, path, value))


def with_item(text: str, path: Path, item: object) -> str:
    """The text with this item in the array there."""
    checked_value(item, path)
    before = parse(text)
    items = items_of(before, path)
    if any(is_same(item, other) for other in items):
        return text
    expected = with_member(before, path, [*items, item])
    if not has_member(before, path):
        return proven(parse, _with_value(text, path, [item]), expected)
    root, node = _chain(text, path)[:: len(path)]
    layout = _layout(text, root)
    splices = inserted(text, node, lambda indent: _written(item, indent, layout), layout)
    return proven(parse, spliced(text, splices), expected)


def without_value(text: str, path: Path, *, prune: bool = False) -> str:
    """The text without what stands there."""
    before = parse(text)
    if not has_member(before, path):
        return text
    after = _without_value(text, path)
    expected = [without_member(before, path)]
    if prune:
        after, expected = _pruned(after, path[:-1]), list(pruned(expected[0], path[:-1]))
    return proven(parse, after, *expected)


def without_item(text: str, path: Path, item: object | Callable[[object], bool], *, prune: bool = False) -> str:
    """The text without the items of the array that are equal to this, or for which this is true."""
    before, is_chosen = parse(text), chosen_by(item)
    items = items_of(before, path)
    after = text
    for number in reversed([number for number, other in enumerate(items) if is_chosen(other)]):
        root, node = _chain(after, path)[:: len(path)]
        after = spliced(after, removed(after, node, number, _layout(after, root)))
    if after == text:
        return text
    expected = [with_member(before, path, [other for other in items if not is_chosen(other)])]
    if prune:
        after, expected = _pruned(after, path), list(pruned(expected[0], path))
    return proven(parse, after, *expected)


def _chain(text: str, path: Path) -> list[Node]:
    """The root and the values on the path, as far as they stand there; a text without an object has none."""
    root = root_of(text)
    chain = [root] if root else []
    for name in path if root else ():
        number = chain[-1].last(name)
        if number is None:
            break
        chain.append(chain[-1].parts[number].node)
    return chain


def _with_value(text: str, path: Path, value: object) -> str:
    chain = _chain(text, path)
    if not chain:
        return _founded(text, nested(path, value))
    node, layout = chain[-1], _layout(text, chain[0])
    if len(chain) <= len(path):
        name, within = path[len(chain) - 1], nested(path[len(chain) :], value)
        splices = inserted(text, node, lambda indent: _member(name, within, indent, layout), layout)
        return spliced(text, splices)
    if isinstance(node.value, dict) and isinstance(value, dict) and value:
        return _with_members(text, path, node.value, value)
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    indent = None if layout.unit is None else line[: len(line) - len(line.lstrip(" \t"))]
    return spliced(text, [Splice(node.start, node.end, _written(value, indent, layout))])


def _with_members(text: str, path: Path, old: dict[str, object], new: dict[str, object]) -> str:
    """The object there made equal, member by member: comments and the order of what stays are kept."""
    for name in old.keys() - new.keys():
        text = _without_value(text, (*path, name))
    for name, value in new.items():
        if name not in old or not is_same(old[name], value):
            text = _with_value(text, (*path, name), value)
    return text


def _without_value(text: str, path: Path) -> str:
    """Without it, however often it stands there: the one before would count otherwise."""
    copies = 1
    while copies:
        chain = _chain(text, path)
        copies = sum(part.name == path[-1] for part in chain[-2].parts) - 1
        number = chain[-2].last(path[-1])
        assert number is not None
        text = spliced(text, removed(text, chain[-2], number, _layout(text, chain[0])))
    return text


def _pruned(text: str, path: Path) -> str:
    """Without the objects and arrays on this path, from its end on, that have neither part nor comment."""
    for length in range(len(path), 0, -1):
        chain = _chain(text, path[:length])
        names = [part.name for part in chain[-2].parts]
        if (
            chain[-1].parts
            or not is_bare(text, chain[-1], _layout(text, chain[0]))
            or names.count(path[length - 1]) > 1
        ):
            break
        text = _without_value(text, path[:length])
    return text


def _founded(text: str, contents: object) -> str:
    """The text, which has no object, with one behind it."""
    line_end = line_end_of(text)
    gap = "" if len(text) == body_start(text) or text.endswith("\n") else line_end
    return f"{text}{gap}{_indented(json.dumps(contents, indent=_UNIT, ensure_ascii=False), line_end)}{line_end}"


def _layout(text: str, root: Node) -> Layout:
    """One line for a text whose object is on one line; otherwise the first member shows how much is indented."""
    unit: str | None = _UNIT
    if root.parts:
        first = root.parts[0].start
        indent = text[max(text.rfind("\n", 0, first) + 1, root.start + 1) : first]
        if "\n" not in text[root.start : root.end]:
            unit = None
        elif indent and not indent.strip(" \t") and "\n" in text[root.start : first]:
            unit = indent
    return Layout(COMMENT, "//", line_end_of(text), unit)


def _member(name: str, value: object, indent: str | None, layout: Layout) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}: {_written(value, indent, layout)}"


def _written(value: object, indent: str | None, layout: Layout) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return _indented(json.dumps(value, indent=layout.unit or _UNIT, ensure_ascii=False), layout.line_end + indent)


def _indented(text: str, line_end: str) -> str:
    """The lines of a value: within a text no line ends, there it is written with a backslash."""
    return text.replace("\n", line_end)
