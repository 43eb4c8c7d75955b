"""TOML edited in place: an `Editor` (editor.py) for the files of Codex.

What is new comes under a header of its own at the end of the text, behind an empty line: there it is right whatever
stands before, unless a table around it is written within a line; then it comes into that line.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence

from daemon.connect.editors import toml_written
from daemon.connect.editors.parts import Layout, Node, inserted, removed
from daemon.connect.editors.splices import (
    BOM,
    Path,
    Splice,
    body_start,
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
from daemon.connect.editors.toml_statements import COMMENT, KIND, Statement, statements_of
from state.errors import DocumentError

_EMPTY_LINE = re.compile(r"[ \t]*\r?\n")


def parse(text: str) -> dict[str, object]:
    """What every reader of the text reads; raises DocumentError where it is broken."""
    statements_of(text)  # it sets the bounds within which the other reader is quick
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"this is no {KIND}: {error}", "mend it by hand; nothing was changed") from error


def is_empty(text: str) -> bool:
    """Whether there is no table, no entry and no comment."""
    return not text.removeprefix(BOM).strip(" \t\r\n")


def with_value(text: str, path: Path, value: object) -> str:
    """The text with this value there."""
    checked_value(value, path)
    before = parse(text)
    if has_member(before, path) and is_same(member_of(before, path), value):
        return text
    expected = with_member(before, path, value)
    return proven(parse, _with_value(text, path, value), expected)


def with_item(text: str, path: Path, item: object) -> str:
    """The text with this item in the array there."""
    checked_value(item, path)
    before = parse(text)
    items = items_of(before, path)
    if any(is_same(item, other) for other in items):
        return text
    expected = with_member(before, path, [*items, item])
    chain = _chain(text, path)
    if chain and has_member(before, path):
        written = toml_written.inline(item)
        after = spliced(text, inserted(text, chain[-1], lambda _: written, _layout(text)))
    elif items and not isinstance(item, dict):
        raise DocumentError(f"{'.'.join(path)!a} is an array of tables", "mend it by hand; nothing was changed")
    elif items:
        after = _appended(text, toml_written.lines(path, [item]))
    else:
        after = _with_value(text, path, [item])
    return proven(parse, after, expected)


def without_value(text: str, path: Path, *, prune: bool = False) -> str:
    """The text without what stands there; a table that had a header only around it goes with it."""
    before = parse(text)
    if not has_member(before, path):
        return text
    after = _without_value(text, path)
    if prune:
        after = _pruned(after, path[:-1])
    return proven(parse, after, *pruned(without_member(before, path), path[:-1]))


def without_item(text: str, path: Path, item: object | Callable[[object], bool], *, prune: bool = False) -> str:
    """The text without the items of the array that are equal to this, or for which this is true."""
    before, is_chosen = parse(text), chosen_by(item)
    items = items_of(before, path)
    numbers = [number for number, other in enumerate(items) if is_chosen(other)]
    if not numbers:
        return text
    after = text
    if _chain(text, path):
        for number in reversed(numbers):
            after = spliced(after, removed(after, _chain(after, path)[-1], number, _layout(after)))
    else:
        taken = {(*path, number) for number in numbers}
        after = _without(text, [each for each in statements_of(text) if each.path[: len(path) + 1] in taken])
    if prune:
        after = _pruned(after, path)
    left = [other for number, other in enumerate(items) if number not in numbers]
    return proven(parse, after, *pruned(with_member(before, path, left), path))


def _chain(text: str, path: Path) -> list[Node]:
    """The value of the entry that holds what is at the path, and those within its line on the way, as far as they go.

    Empty when what is there, if anything, is a table with a header or with dots in its names.
    """
    holder = next((each for each in statements_of(text) if each.node and path[: len(each.path)] == each.path), None)
    if holder is None or holder.node is None:
        return []
    chain = [holder.node]
    for name in path[len(holder.path) :]:
        number = chain[-1].last(name)
        if number is None:
            break
        chain.append(chain[-1].parts[number].node)
    return chain


def _missing(text: str, path: Path, chain: Sequence[Node]) -> Path:
    """The end of the path for which the chain has no value."""
    holder = next(each for each in statements_of(text) if each.node and path[: len(each.path)] == each.path)
    return path[len(holder.path) + len(chain) - 1 :]


def _with_value(text: str, path: Path, value: object) -> str:
    chain, old = _chain(text, path), member_of(parse(text), path)
    if chain and (missing := _missing(text, path, chain)):
        written = f"{toml_written.key(missing[0])} = {toml_written.inline(nested(missing[1:], value))}"
        padded = written if chain[-1].parts else f" {written} "
        return spliced(text, inserted(text, chain[-1], lambda _: padded, _layout(text)))
    if chain:
        return spliced(text, [Splice(chain[-1].start, chain[-1].end, toml_written.inline(value))])
    if isinstance(old, dict) and isinstance(value, dict):
        return _with_members(text, path, old, value)
    if old is not None:
        text = _without_value(text, path)
    if toml_written.is_table(value):
        return _appended(text, toml_written.lines(path, value))
    return _with_entry(text, path, toml_written.inline(value))


def _with_members(text: str, path: Path, old: dict[str, object], new: dict[str, object]) -> str:
    """The table there made equal, member by member: comments and the order of what stays are kept."""
    for name in old.keys() - new.keys():
        text = _without_value(text, (*path, name))
    if not new and not has_member(parse(text), path):  # it stood there by what was in it alone
        return _appended(text, toml_written.lines(path, new))
    for name, value in new.items():
        if name not in old or not is_same(old[name], value):
            text = _with_value(text, (*path, name), value)
    return text


def _with_entry(text: str, path: Path, written: str) -> str:
    """With a line for it in its table: behind the last under its header, or with dots in its name as others are."""
    table, statements = path[:-1], statements_of(text)
    beside = [each for each in statements if each.table == table]
    beside = beside or [
        each for each in statements if each.path[: len(table)] == table and len(each.table) < len(table)
    ]
    if not beside:
        entry = f"{toml_written.key(path[-1])} = {written}"
        return _appended(text, [f"[{toml_written.key(*table)}]", entry]) if table else _at_start(text, entry)
    last = beside[-1]
    place = _lines_of(text, last)[1]
    place -= _line_end_before(text, place)
    indent = text[max(text.rfind("\n", 0, last.start) + 1, body_start(text)) : last.start] if last.node else ""
    entry = f"{indent}{toml_written.key(*path[len(last.table) :])} = {written}"
    return spliced(text, [Splice(place, place, line_end_of(text) + entry)])


def _at_start(text: str, line: str) -> str:
    start, line_end = body_start(text), line_end_of(text)
    gap = line_end * 2 if len(text) > start else line_end
    return spliced(text, [Splice(start, start, line + gap)])


def _appended(text: str, lines: Iterable[str]) -> str:
    """With these lines at the end, behind an empty one; a last line without an end of its own stays so."""
    line_end = line_end_of(text)
    block = line_end.join(lines)
    if len(text) == body_start(text):
        return f"{text}{block}{line_end}"
    return f"{text}{line_end}{block}{line_end}" if text.endswith("\n") else f"{text}{line_end}{line_end}{block}"


def _without_value(text: str, path: Path) -> str:
    chain = _chain(text, path)
    if len(chain) > 1 and not _missing(text, path, chain):
        number = chain[-2].last(path[-1])
        assert number is not None
        return spliced(text, removed(text, chain[-2], number, _layout(text)))
    return _without(text, [each for each in statements_of(text) if each.path[: len(path)] == path])


def _without(text: str, statements: Iterable[Statement]) -> str:
    """Without their lines, of which only the comments stay, and without the empty line before a header."""
    splices: list[Splice] = []
    for each in statements:
        start, end = _lines_of(text, each)
        if comment := COMMENT.search(text, each.end, end):
            splices.append(Splice(each.start, comment.start()))
            continue
        line_end = _line_end_before(text, start)
        above = max(text.rfind("\n", 0, start - line_end) + 1, body_start(text))
        if each.is_header and line_end and not text[above:start].strip():
            start = above
        if splices and splices[-1].end == start:
            start = splices.pop().start
        splices.append(Splice(start, end))
    return spliced(text, [_at_edge(text, splice) for splice in splices])


def _at_edge(text: str, splice: Splice) -> Splice:
    """At the start of the text also the empty line below is taken out, at its end the end of the line above."""
    if splice.start == body_start(text) and (empty := _EMPTY_LINE.match(text, splice.end)):
        return Splice(splice.start, empty.end())
    if splice.end == len(text) and not text.endswith("\n") and splice.start > body_start(text):
        return Splice(splice.start - _line_end_before(text, splice.start), splice.end)
    return splice


def _pruned(text: str, path: Path) -> str:
    """Without the tables and arrays on this path, from its end on, that are empty."""
    for length in range(len(path), 0, -1):
        contents = parse(text)
        if has_member(contents, path[:length]):
            if member_of(contents, path[:length]) not in ({}, []):
                break
            text = _without_value(text, path[:length])
    return text


def _lines_of(text: str, statement: Statement) -> tuple[int, int]:
    """Where its first line begins, and where its last one ends with its end."""
    start = max(text.rfind("\n", 0, statement.start) + 1, body_start(text))
    end = text.find("\n", statement.end)
    return start, end + 1 if end >= 0 else len(text)


def _line_end_before(text: str, place: int) -> int:
    """How many characters the end of a line has that stands there, if one does."""
    return 2 if text.endswith("\r\n", 0, place) else int(text.endswith("\n", 0, place))


def _layout(text: str) -> Layout:
    return Layout(COMMENT, "#", line_end_of(text), None)
