"""Edit: sets or removes one key in the text of a YAML file, and leaves every other character as it is.

PyYAML says where each node begins and ends, so only the value's own characters change. A text that would mean
anything else afterwards, or lose a comment, is refused.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import yaml

from state.errors import ConfigError

_COMMENT = re.compile(r"([ \t]+)(#.*)")


def edited(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with the value at this path. Raise ConfigError if it cannot be written without loss."""
    new = _set(text, path, value)
    return _proven(text, new, path, value)


def without(text: str, path: Sequence[str]) -> str | None:
    """Return the text without the key at this path; None if it is not there. Raise ConfigError as `edited`.

    A key with a comment on its line becomes a comment, so that nothing said about it is lost.
    """
    nodes = _nodes(text, path)
    if len(nodes) <= len(path):
        return None
    while len(path) > 1 and len(nodes[-2].value) == 1 and not _comments(_source(text, nodes[-3], path[-2])):
        path, nodes = path[:-1], nodes[:-1]  # nothing else is in the section
    return _proven(text, _cut(text, nodes[-2], path[-1]), path, _GONE)


_GONE = object()


def found(text: str, path: Sequence[str]) -> tuple[str, int, object] | None:
    """Return what stands in the text for the key at this path, its line from 1 on, and its value; None if nothing."""
    nodes = _nodes(text, path)
    pair = _pair(nodes[-2], path[-1]) if len(nodes) > len(path) else None
    if pair is None:
        return None
    value: object = yaml.safe_load(text)
    for key in path:
        value = value[key] if isinstance(value, dict) else None
    name, node = pair
    return text[name.start_mark.index : node.end_mark.index].rstrip(), name.start_mark.line + 1, value


def as_yaml(value: object) -> str:
    """Return a value as YAML in one line."""
    said = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return said.removesuffix("\n").removesuffix("\n...")


def _nodes(text: str, path: Sequence[str]) -> list[Any]:
    """Return the root and the node of each key of the path, as far as there are any."""
    nodes: list[Any] = [yaml.compose(text, yaml.SafeLoader)]
    for key in path:
        pair = _pair(nodes[-1], key)
        if pair is None:
            break
        nodes.append(pair[1])
    return nodes


def _pair(mapping: Any, key: str) -> tuple[Any, Any] | None:  # noqa: ANN401 - PyYAML has no types
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else ()
    return next((pair for pair in pairs if pair[0].value == key), None)


def _set(text: str, path: Sequence[str], value: object) -> str:
    nodes = _nodes(text, path)
    known, depth = nodes[-1], len(nodes) - 1  # the deepest node that is there, and how many keys lead to it
    key = _pair(nodes[-2], path[depth - 1]) if depth else None
    if key is not None and depth == len(path):
        return _replaced(text, key, as_yaml(value))
    is_mapping = isinstance(known, yaml.MappingNode)
    if is_mapping and known.flow_style:
        at = known.start_mark.index + 1
        return f"{text[:at]}{_nested(path[depth:], value)}{', ' if known.value else ''}{text[at:]}"
    if key is not None and known.value and not is_mapping:  # null in words, or what is no section
        return _replaced(text, key, f"{{{_nested(path[depth:], value)}}}")
    if text and not text.endswith("\n"):
        text += "\n"
    if key is None:
        return text + _block(path, value, known.start_mark.column if is_mapping else 0)
    at = text.index("\n", key[0].start_mark.index) + 1  # below the section's own line, above what is in it
    column = known.start_mark.column if is_mapping else key[0].start_mark.column + 2
    return f"{text[:at]}{_block(path[depth:], value, column)}{text[at:]}"


def _nested(path: Sequence[str], value: object) -> str:
    """Return the keys and the value in flow form, without the outer braces."""
    for key in reversed(path):
        value = {key: value}
    return as_yaml(value)[1:-1]


def _block(path: Sequence[str], value: object, column: int) -> str:
    """Return the keys, a line each, with the value behind the last one."""
    rows = [f"{' ' * (column + 2 * depth)}{as_yaml(key)}:" for depth, key in enumerate(path)]
    return "\n".join(rows) + f" {as_yaml(value)}\n"


def _replaced(text: str, pair: Any, said: str) -> str:  # noqa: ANN401
    """Return the text with another value for a key; a comment on its line keeps its column if there is room."""
    key, node = pair
    colon = text.index(":", key.end_mark.index) + 1
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        start, end = _line_start(text, node.start_mark.index), _end(text, node)
        return f"{text[:colon]} {said}{text[colon:start]}{text[end:]}"
    is_empty = node.start_mark.index == node.end_mark.index
    start, end = (colon, colon) if is_empty else (node.start_mark.index, node.end_mark.index)
    said = f" {said}" if is_empty else said
    rest = text[end - text[start:end].endswith("\n") :]  # as a text over several lines does
    if match := _COMMENT.match(rest):
        room = max(1, len(match[1]) + end - start - len(said))
        rest = " " * room + rest[match.start(2) :]
    return f"{text[:start]}{said}{rest}"


def _cut(text: str, mapping: Any, key: str) -> str:  # noqa: ANN401
    """Return the text without the key of this mapping."""
    pairs = mapping.value
    at = next(number for number, pair in enumerate(pairs) if pair[0].value == key)
    name, node = pairs[at]
    if mapping.flow_style:
        if at + 1 < len(pairs):
            return text[: name.start_mark.index] + text[pairs[at + 1][0].start_mark.index :]
        start = pairs[at - 1][1].end_mark.index if at else name.start_mark.index
        return text[:start] + text[node.end_mark.index :]
    start, end = name.start_mark.index, _end(text, node)
    first = text[start : text.find("\n", start) + 1 or len(text)]
    colon = text.index(":", name.end_mark.index) + 1
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        has_comment = "#" in first[colon - start :]
    else:
        has_comment = _COMMENT.match(text[max(colon, node.end_mark.index) :]) is not None
    if has_comment:
        return f"{text[:start]}# {first}{text[max(end, start + len(first)) :]}"
    return text[: _line_start(text, start)] + text[end:]


def _source(text: str, mapping: Any, key: str) -> str:  # noqa: ANN401
    """Return the lines of a key with its value."""
    pair = _pair(mapping, key)
    return text[pair[0].start_mark.index : _end(text, pair[1])] if pair else ""


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _end(text: str, node: Any) -> int:  # noqa: ANN401
    """Return where the last line of a node ends; PyYAML ends a block collection at the next token."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = node.end_mark.index
    if end and text[end - 1] == "\n":
        return int(end)
    return text.find("\n", end) + 1 or len(text)


def _proven(text: str, new: str, path: Sequence[str], value: object) -> str:
    """Return the new text if it means the old one with this change, and has every comment. Raise ConfigError."""
    wanted = _sections(text)
    at = wanted
    for key in path[:-1]:
        at[key] = dict(at[key]) if isinstance(at.get(key), dict) else {}
        at = at[key]
    at.pop(path[-1], None)
    if value is not _GONE:
        at[path[-1]] = value
    try:
        is_same = _sections(new) == {name: one for name, one in wanted.items() if one not in _EMPTY}
    except yaml.YAMLError:
        is_same = False
    if not is_same or _comments(new) < _comments(text):
        by_hand = "take its lines out" if value is _GONE else f"write there: {_nested(path, value)}"
        raise ConfigError(
            f"{'.'.join(path)} cannot be changed without loss of the file's form", f"by hand, {by_hand}"
        )
    return new


_EMPTY: tuple[object, ...] = (None, {})


def _sections(text: str) -> dict[str, Any]:
    """Return what the text means; a section without keys is as good as none."""
    return {name: one for name, one in (yaml.safe_load(text) or {}).items() if one not in _EMPTY}


def _comments(text: str) -> int:
    """Count what begins a comment, which is nothing in a value; of a part that is no YAML, what may begin one."""
    with suppress(yaml.YAMLError):
        for token in reversed([*yaml.scan(text, yaml.SafeLoader)]):
            if isinstance(token, yaml.ScalarToken) and not token.plain:
                text = f"{text[: token.start_mark.index]}x\n{text[token.end_mark.index :]}"
    return len(re.findall(r"(?:^|\s)#", text, re.MULTILINE))
