"""Splices of a text, and what both editors of configuration files ask of every change.

An editor never writes a file anew: it finds places in the text as it stands, and replaces, puts in or takes out.
Then it reads both texts as any reader would: the contents after are those before with the change, or nothing is
returned (`proven`). So an editor that is wrong refuses; it does no harm.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from state.errors import DocumentError, UsageError

BOM = "\ufeff"
MOST_LEVELS = 100
_MOST_CHARACTERS = 4_000_000

Path = tuple[str, ...]


@dataclass(frozen=True)
class Splice:
    """Instead of what stands from `start` to `end` comes `text`."""

    start: int
    end: int
    text: str = ""


def spliced(text: str, splices: Sequence[Splice]) -> str:
    """The text with all of them done; none may overlap another, at one place they are done in their order."""
    pieces, done = [], 0
    for splice in sorted(splices, key=lambda each: each.start):
        pieces += [text[done : splice.start], splice.text]
        done = splice.end
    return "".join([*pieces, text[done:]])


def broken(kind: str, text: str, position: int, why: str) -> DocumentError:
    """The error that a file is none of its format, with the line and the column, which count from 1."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return DocumentError(
        f"this is no {kind}: {why} in line {line}, column {column}", "mend it by hand; nothing was changed"
    )


def checked(kind: str, text: str) -> str:
    """The text, if it has a size and characters that a file can have; raises DocumentError otherwise."""
    if len(text) > _MOST_CHARACTERS:
        raise DocumentError(f"a {kind} file of {len(text)} characters is too large to be edited")
    if not _is_utf8(text):
        found = next(place for place, letter in enumerate(text) if "\ud800" <= letter <= "\udfff")
        raise broken(kind, text, found, "bytes that are not UTF-8")
    return text


def body_start(text: str) -> int:
    """Where the text begins after its byte order mark."""
    return len(BOM) if text.startswith(BOM) else 0


def line_end_of(text: str) -> str:
    """How the first line of the text ends."""
    found = text.find("\n")
    return "\r\n" if found > 0 and text[found - 1] == "\r" else "\n"


def is_same(one: object, other: object) -> bool:
    """Whether a file says the same by both: True is not 1, 1 is not 1.0; the order of an object's members is free."""
    return _canonical(one) == _canonical(other)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=lambda other: [type(other).__name__, str(other)])


def checked_value(value: object, path: Path) -> None:
    """Raises UsageError for a path or value that no file can hold."""
    if not path:
        raise UsageError("the path to a value has no name")
    try:
        text = json.dumps([value, path], ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"a value for {'.'.join(path)!a} cannot be written: {error}") from error
    if not _is_utf8(text):
        raise UsageError(f"a value for {'.'.join(path)!a} has characters that no file can hold")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_member(contents: object, path: Path) -> bool:
    """Whether something stands there."""
    for name in path:
        if not isinstance(contents, Mapping) or name not in contents:
            return False
        contents = contents[name]
    return True


def member_of(contents: object, path: Path) -> object:
    """What stands there, or None."""
    for name in path:
        contents = contents.get(name) if isinstance(contents, Mapping) else None
    return contents


def items_of(contents: object, path: Path) -> list[object]:
    """The items of the array there, none if nothing stands there; raises DocumentError for anything else."""
    found = member_of(contents, path)
    if isinstance(found, list):
        return found
    if has_member(contents, path):
        raise DocumentError(f"{'.'.join(path)!a} is no array", "mend it by hand; nothing was changed")
    return []


def nested(path: Path, value: object) -> object:
    """The value in an object for each name of the path."""
    for name in reversed(path):
        value = {name: value}
    return value


def with_member(contents: object, path: Path, value: object) -> object:
    """The contents with this value there; raises DocumentError where something else than an object is on the way."""
    if not path:
        return value
    if not isinstance(contents, Mapping):
        raise DocumentError(f"{path[0]!a} belongs into what is no object", "mend it by hand; nothing was changed")
    return {**contents, path[0]: with_member(contents.get(path[0], {}), path[1:], value)}


def without_member(contents: object, path: Path) -> object:
    """The contents without what stands there."""
    if not has_member(contents, path) or not isinstance(contents, Mapping):
        return contents
    if len(path) > 1:
        return {**contents, path[0]: without_member(contents[path[0]], path[1:])}
    return {name: value for name, value in contents.items() if name != path[0]}


def pruned(contents: object, path: Path) -> Iterator[object]:
    """The contents, then without what is empty at the end of this path, then without what that leaves empty, …."""
    yield contents
    while path and member_of(contents, path) in ({}, []):
        contents, path = without_member(contents, path), path[:-1]
        yield contents


def chosen_by(item: object | Callable[[object], bool]) -> Callable[[object], bool]:
    """Whether something is that item, or what it is true for."""
    return item if callable(item) else lambda other: is_same(other, item)


def proven(parse: Callable[[str], object], after: str, *allowed: object) -> str:
    """The text after an edit, whose contents are one of those; raises DocumentError otherwise."""
    try:
        contents = parse(after)
    except DocumentError:
        contents = None
    if any(is_same(contents, each) for each in allowed):
        return after
    raise DocumentError(
        "this file is written in a way that cannot be changed without changing more of it",
        "change it by hand; nothing was changed",
    )
