"""Edit: one literal text goes into an agent's file for each setting, and exactly that text comes out again.

In JSON, with comments or without, it goes right behind the opening bracket of its object or list; in TOML at the end,
where a table may always be added, or outside of tables at the head; in Markdown it is the first line. So nothing that
follows has to be understood, and comments and layout stay. Every result is read again and has to say what it said
before, plus the setting or less it: otherwise nothing is written. Parsers that keep comments were tried and lost to
this: json-five takes a second for 90 kB, and tomlkit moves what it was not asked to move.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal, cast

from state.errors import DocumentError, UsageError

Format = Literal["json", "toml", "md"]
Names = tuple[str, ...]
_BOM = "\ufeff"
_TOKEN = re.compile(
    r'(?P<blank>\s+|//[^\r\n]*|/\*(?s:.*?)\*/)|"(?:[^"\\]|\\.)*"|[^\s{}\[\]:,"/]+|[{}\[\]:,]', re.DOTALL
)
_FIRST_INDENT, _NEXT_LINE = re.compile(r"\n([ \t]+)\S"), re.compile(r"[ \t]*\r?\n([ \t]*)(?=[^\s/])")
_HEAD = re.compile(r"\ufeff?(?:#[^\n]*\n)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NOTHING = object()
# So many places where a text may stand are tried; a file with more of them came from nobody who means it.
_MOST_PLACES = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in an agent's file; with `item` it is one of the list at this path, not all that is there."""

    path: Names
    value: object
    item: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """A setting with the text that was put in for it; "" if somebody else had set the same before.

    `depth`: how many names of its path were there already.
    """

    setting: Setting
    text: str
    depth: int = 0


def import_of(name: str) -> Setting:
    """Return the line of a Markdown file that has an agent read another one."""
    return Setting(("lines",), f"@{name}", item=True)


def read(form: Format, text: str) -> Mapping[str, Any]:
    """Return what the file says to its agent. Raise DocumentError for a broken one."""
    if form == "md":
        return {"lines": [line for line in text.removeprefix(_BOM).splitlines() if line.strip()]}
    try:
        return tomllib.loads(text.removeprefix(_BOM)) if form == "toml" else _read_json(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"this is no {form.upper()} ({error})", "mend it by hand; nothing was changed") from error


def at(value: object, path: Sequence[str], default: object = None) -> object:
    """Return what a parsed file has at a path."""
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


def holds(form: Format, text: str, setting: Setting) -> bool:
    """Return whether the file has this setting, by whomever."""
    found = at(read(form, text), setting.path, _NOTHING)
    return setting.value in found if setting.item and isinstance(found, list) else found == setting.value


def put(form: Format, text: str, setting: Setting) -> tuple[str, Put]:
    """Return the text with this setting, and what was put in.

    Raise DocumentError where something else is set, or where no literal text does it.
    """
    if holds(form, text, setting):
        return text, Put(setting, "")
    shown = json.dumps(setting.value, ensure_ascii=False)
    by_hand = f"nothing was changed; put it in by hand, at {'.'.join(setting.path)}: {shown}"
    before = read(form, text)
    if other := _in_the_way(before, setting):
        raise DocumentError(f"{'.'.join(setting.path)} {other}", by_hand)
    place, new, depth = _PLACES[form](text, setting)
    new = new.replace("\n", "\r\n") if "\r\n" in text else new
    try:
        new.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"a configuration file cannot hold {shown!a}", "give it a name in UTF-8") from error
    after = f"{text[:place]}{new}{text[place:]}"
    with suppress(DocumentError):
        if before in _lacking(read(form, after), setting, first=form != "toml"):
            return after, Put(setting, new, depth)
    raise DocumentError(f"{setting.path[0]!r} cannot be added without changing what is there", by_hand)


def cut(form: Format, text: str, one: Put) -> str | None:
    """Return the text without what was put in; None if somebody has changed the setting, so that it stays."""
    setting, before = one.setting, read(form, text)
    expected = list(_lacking(before, setting, first=form != "toml"))
    if not expected:
        is_gone = setting.item or at(before, setting.path, _NOTHING) is _NOTHING
        return text if is_gone else None
    # Codex parts the tables with blank lines where it changes another server.
    lines = [re.escape(line) for line in one.text.splitlines() if line]
    loose = r"(?:\r?\n)*" + r"(?:\r?\n)+".join(lines) if form == "toml" else ""
    for pattern in (re.escape(one.text), loose):
        for found in islice(re.finditer(pattern, text), _MOST_PLACES) if pattern else ():
            after = text[: found.start()] + text[found.end() :]
            if _says(form, after, expected):
                return after
    made = len(setting.path) - (not setting.item) - one.depth
    return _laid_out(text, before, expected[min(made, len(expected) - 1)]) if form == "json" else None


def _laid_out(text: str, before: object, after: object) -> str | None:
    """Return what a file says now in the layout of a program that writes it whole; None for any other layout."""
    unit = found[1] if (found := _FIRST_INDENT.search(text)) else None
    for separators in ((", ", ": "), (",", ": "), (",", ":")):
        write = partial(json.dumps, ensure_ascii=False, indent=unit, separators=separators)
        if text.strip() == write(before):
            return text.replace(text.strip(), write(after))
    return None


def _says(form: Format, text: str, expected: Sequence[object]) -> bool:
    try:
        return read(form, text) in expected
    except DocumentError:
        return False


def _in_the_way(whole: Mapping[str, Any], setting: Setting) -> str:
    """Return what keeps a setting from being put in; "" if nothing does."""
    found: object = whole
    for name in setting.path:
        if not isinstance(found, Mapping):
            return "belongs into an object, and something else is there"
        found = found.get(name, _NOTHING)
        if found is _NOTHING:
            return ""
    if setting.item:
        return "" if isinstance(found, list) else "is a list, and something else is there"
    return "has another value already"


def _lacking(whole: Mapping[str, Any], setting: Setting, *, first: bool) -> Iterator[object]:
    """Yield what the file may say without the setting: with what is empty then, and without, outwards."""
    found, path = at(whole, setting.path, _NOTHING), setting.path
    left: object = _NOTHING
    if setting.item:
        if not isinstance(found, list) or setting.value not in found:
            return
        left = list(found) if first else found[::-1]
        left.remove(setting.value)
        left = left if first else left[::-1]
    elif found != setting.value:
        return
    while path:
        if left is not _NOTHING:
            yield _replaced(whole, path, left)
            if left:
                return
        parent = cast("Mapping[str, Any]", at(whole, path[:-1]))
        left = {name: one for name, one in parent.items() if name != path[-1]}
        path = path[:-1]
    yield left


def _replaced(whole: Mapping[str, Any], path: Names, value: object) -> object:
    return {**whole, path[0]: _replaced(whole[path[0]], path[1:], value)} if path else value


# JSON


def _read_json(text: str) -> dict[str, Any]:
    """Read JSON with comments and trailing commas."""
    try:
        whole = json.loads(text.removeprefix(_BOM), parse_constant=_refused)
    except ValueError:
        kept = list[str]()
        for match in _tokens(text):
            if match[0] in ("}", "]") and kept[-1:] == [","] and kept[-2:-1] not in ([], ["{"], ["["], [","]):
                kept.pop()
            kept.append(match[0])
        whole = json.loads(" ".join(kept) or "{}", parse_constant=_refused)
    if not isinstance(whole, dict):
        raise ValueError("it is no object")  # noqa: TRY004
    return whole


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no value")


def _tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    start = start or len(_BOM) * text.startswith(_BOM)
    while start < len(text):
        match = _TOKEN.match(text, start)
        if match is None:
            raise ValueError(f"at {text[start : start + 20]!r}")
        start = match.end()
        if match.lastgroup != "blank":
            yield match


def _container(text: str, path: Names) -> tuple[int, int, int]:
    """Return the innermost container on the path that is there: behind its opening bracket, its end, its depth.

    The text is known to be JSON. A name that stands there twice may lead astray, which reading again shows.
    """
    level, depth, place, name, last = 0, -1, -1, "", ""
    for match in _tokens(text):
        sign = match[0]
        if sign in "{[":
            if level == depth + 1 and (depth < 0 or (depth < len(path) and name == path[depth])):
                depth, place = depth + 1, match.end()
            level += 1
        elif sign in "}]":
            level -= 1
            if level == depth:
                return place, match.end(), depth
        elif level == depth + 1 and sign in ":,":
            name = json.loads(last) if sign == ":" else ""
        last = sign
    return -1, -1, 0


def _place_in_json(text: str, setting: Setting) -> tuple[int, str, int]:
    """Return where the text goes, the text, and how many names of the path are there."""
    place, end, depth = _container(text, setting.path)
    missing, value = setting.path[depth:], setting.value
    value = [value] if setting.item and missing else value
    for name in reversed(missing[1:]):
        value = {name: value}
    unit = found[1] if (found := _FIRST_INDENT.search(text)) else "  "
    if place < 0:  # a file without anything but comments
        head = "\n" if text.removeprefix(_BOM) and not text.endswith("\n") else ""
        return len(text), f"{head}{json.dumps({missing[0]: value}, ensure_ascii=False, indent=unit)}\n", 0
    is_empty = next(_tokens(text, place))[0] in "}]"
    is_compact = not is_empty and "\n" not in text[place:end]
    written = json.dumps(value, ensure_ascii=False, indent=None if is_compact else unit)
    named = f"{json.dumps(missing[0], ensure_ascii=False)}: {written}" if missing else written
    if is_compact:
        return place, f"{named}, ", depth
    line = text[text.rfind("\n", 0, place) + 1 : place]
    outer = line[: len(line) - len(line.lstrip())]
    beside = None if is_empty else _NEXT_LINE.match(text, place)
    indent = beside[1] if beside else outer + unit
    new = f"\n{indent}" + named.replace("\n", f"\n{indent}")
    if not is_empty:
        return place, f"{new},", depth
    return place, new if _NEXT_LINE.match(text, place) else f"{new}\n{outer}", depth


# TOML and Markdown


def _place_in_toml(text: str, setting: Setting) -> tuple[int, str, int]:
    path, value = setting.path, [setting.value] if setting.item else setting.value
    if not isinstance(value, Mapping) and not _is_tables(value):
        path, value = path[:-1], {path[-1]: value}
    if not path:  # what belongs to no table stands before all of them, below the comment that heads the file
        return (
            cast("re.Match[str]", _HEAD.match(text)).end(),
            "".join(f"{line}\n" for line in _tables(path, value)),
            0,
        )
    head = "\n" if text.removeprefix(_BOM) else ""
    head += "\n" if text.removeprefix(_BOM) and not text.endswith("\n") else ""
    return len(text), head + "".join(f"{line}\n" for line in _tables(path, value)), 0


def _tables(path: Names, value: object) -> Iterator[str]:
    """Yield the lines of a table, or of the tables of a list, each with its header."""
    for table in cast("list[Mapping[str, object]]", value if isinstance(value, list) else [value]):
        name = ".".join(map(_key, path))
        if path:
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
        inner = {key: one for key, one in table.items() if isinstance(one, Mapping) or _is_tables(one)}
        yield from (f"{_key(key)} = {_inline(one)}" for key, one in table.items() if key not in inner)
        for key, one in inner.items():
            yield from _tables((*path, key), one)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _inline(name)


def _inline(value: object) -> str:
    """Write a value that TOML and JSON write alike, but for one sign."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _place_in_markdown(text: str, setting: Setting) -> tuple[int, str, int]:
    start = len(_BOM) if text.startswith(_BOM) else 0
    return start, f"{setting.value}\n" + ("\n" if text[start:] else ""), 0


_PLACES = {"json": _place_in_json, "toml": _place_in_toml, "md": _place_in_markdown}
