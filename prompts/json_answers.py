"""JSON answers: finds the operations in what a model answered, whatever stands around them or is damaged in them."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from state.document.operations import Action

# More broken beginnings of a value are not tried; and the library takes time that grows with the square of a text.
MAX_TRIES, MAX_REPAIRS, MAX_MENDED, MAX_DEPTH = 1_000, 4, 16_000, 8

_DECODER = json.JSONDecoder(strict=False)  # models write line breaks and tabs into strings as they are
_OPENING = re.compile(r"[\[{]")
# The end of a model's reasoning, or the beginning of its answer. Drafts stand before the last of these.
_MARK = re.compile(
    r"</(?:think(?:ing)?|thought|reason(?:ing)?|reflection|analysis|scratchpad|draft)>|\[/THINK\]|◁/think▷"
    r"|<\|channel\|>\s*final\b[^<]*<\|message\|>|\bassistantfinal|<(?:final_?)?(?:answer|response|output|final)>",
    re.IGNORECASE,
)
_QUOTE = "[\"'“”]?"
_KEY = re.compile(rf"{_QUOTE}\boperations{_QUOTE}\s*:", re.IGNORECASE)
_LIST = re.compile(_KEY.pattern + r"\s*\[", re.IGNORECASE)
_ELEMENT = re.compile(rf"\{{\s*{_QUOTE}(?:op|operation|action){_QUOTE}\s*:", re.IGNORECASE)
_CONSUMED = re.compile(rf"{_QUOTE}\bconsumed{_QUOTE}\s*:\s*", re.IGNORECASE)
ACTION_KEYS = ("op", "operation", "action")
_ACTIONS = frozenset(action.value for action in Action)


@dataclass(frozen=True, slots=True)
class Found:
    """The operations and the value of `consumed` as they were said; `complete`: the list did not break off."""

    operations: list[Any]
    consumed: Any = None
    complete: bool = True
    is_bare: bool = False  # without the object around them

    @property
    def says_something(self) -> bool:
        """Return whether there is an operation, or an input that needs none."""
        return bool(self.operations or self.consumed)


def named(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with its keys in lower case."""
    return {key.strip().casefold(): one for key, one in value.items()}


@lru_cache(maxsize=8)  # each step of a dream plays all answers again
def find(text: str, depth: int = 0) -> Found | None:
    """Return the answer in a text: the last that says something, after the reasoning if that is marked."""
    values, prose = _values(text)
    last = max((mark.end() for mark in _MARK.finditer(prose)), default=0)
    for begin in dict.fromkeys((last, 0)):
        found = _whole([value for at, value in values if at >= begin], prose[begin:], depth)
        if found is None or not found.says_something:
            mended = _mended(text[begin:], prose[begin:], depth)
            found = mended if mended is not None and (found is None or mended.says_something) else found
        if found is not None:
            return found
    return None


def _values(text: str) -> tuple[list[tuple[int, Any]], str]:
    """Return the JSON values in a text with their places, and the text with blanks in their stead."""
    values, prose, at, tries = list[tuple[int, Any]](), list[str](), 0, 0
    search_from = 0
    opening = re.compile(r'\s*"').match(text) or _OPENING.search(text)  # a string may have the whole answer in it
    while opening is not None and tries < MAX_TRIES:
        begin = opening.end() - 1
        try:
            value, search_from = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            search_from, tries = begin + 1, tries + 1
        else:
            values.append((begin, value))
            prose += [text[at:begin], " " * (search_from - begin)]
            at = search_from
        opening = _OPENING.search(text, search_from)
    return values, "".join([*prose, text[at:]])


def _whole(values: Iterable[Any], prose: str, depth: int) -> Found | None:
    """Return the answer among undamaged values. Operations without their object may be parts of a damaged one."""
    answers = [found for value in values if (found := _answer_of(value, depth)) is not None]
    if any(not one.is_bare for one in answers):
        answers = [one for one in answers if not one.is_bare]
        return next((one for one in reversed(answers) if one.says_something), answers[-1])
    if not answers or _KEY.search(prose) or _ELEMENT.search(prose):
        return None
    return Found([operation for one in answers for operation in one.operations], is_bare=True)


def _answer_of(value: Any, depth: int) -> Found | None:  # noqa: ANN401 - JSON has no better type
    """Return the answer that a value is, or that is somewhere in it."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return find(value, depth + 1) if _OPENING.search(value) else None
    parts: Iterable[Any] = value if isinstance(value, list) else ()
    found: Found | None = None
    if isinstance(value, list) and any(map(_is_operation, value)):
        found = Found(value, is_bare=True)
    elif isinstance(value, dict):
        parts, found = value.values(), _answer_in(named(value), depth)
        if found is None and _is_operation(value):
            found = Found([value], is_bare=True)
    return found or next((one for part in parts if (one := _answer_of(part, depth + 1)) is not None), None)


def _answer_in(said: dict[str, Any], depth: int) -> Found | None:
    """Return the answer that an object with these keys is."""
    operations = said.get("operations", [] if isinstance(said.get("consumed"), list) else None)
    if isinstance(operations, str) and (inside := find(operations, depth + 1)) is not None:
        operations = inside.operations
    if isinstance(operations, dict):
        operations = [operations] if operations else []
    return Found(operations, said.get("consumed")) if isinstance(operations, list) else None


def _is_operation(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    said = named(value)
    return any(str(said.get(key)).strip().casefold() in _ACTIONS for key in ACTION_KEYS)


def _mended(text: str, prose: str, depth: int) -> Found | None:
    """Return the operations of a damaged answer: those that are sound, and the rest as a library can mend it.

    One that nothing can be made of is represented by its first 160 characters.
    """
    # What can be read as a whole is blank in the prose: a draft, not the damaged answer.
    opening = next((one for one in _LIST.finditer(text) if prose[one.start()] != " "), None)
    opening = opening or (_ELEMENT.search(text) if _ELEMENT.search(prose) else None)
    if opening is None:
        return None
    at, operations = opening.end() if text[opening.end() - 1] == "[" else opening.start(), list[Any]()
    is_listed = text[:at].rstrip().endswith("[")
    for _ in range(MAX_REPAIRS):
        sound, at, is_closed = _sound(text, at)
        operations += sound
        if is_closed or at >= len(text):
            return Found(operations, _consumed(text[at:]), complete=is_closed or not is_listed)
        if (rest := _repaired(text[at : at + MAX_MENDED], depth, is_listed=is_listed)) is not None:
            is_complete = rest.complete and len(text) - at <= MAX_MENDED
            return Found(operations + rest.operations, rest.consumed, complete=is_complete)
        following = _ELEMENT.search(text, at + 1)
        if following is None:
            break
        operations.append(text[at : at + 160])
        at = following.start()
    return Found(operations, complete=False)


def _sound(text: str, at: int) -> tuple[list[Any], int, bool]:
    """Return the elements of a list up to the first damaged one, where they end, and whether the list ends there."""
    elements = list[Any]()
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if text[at : at + 1] == "]":
            return elements, at + 1, True
        try:
            element, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return elements, at, False
        elements.append(element)


def _consumed(text: str) -> Any:  # noqa: ANN401 - JSON has no better type
    if (key := _CONSUMED.search(text)) is None:
        return None
    try:
        return _DECODER.raw_decode(text, key.end())[0]
    except (ValueError, RecursionError):
        return None


def _repaired(rest: str, depth: int, *, is_listed: bool) -> Found | None:
    """Return what json-repair makes of the rest of a list, without a last element that broke off.

    Unless `is_listed`, nothing shows where the list ends, so that it is complete if its last element is.
    """
    from json_repair import repair_json

    rest = rest.rpartition("\n```")[0] or rest  # words after a code block
    try:
        made: Any = repair_json('{"operations": [' + rest, return_objects=True, logging=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    value, log = made if isinstance(made, tuple) else (made, [])
    found = _answer_of(value, depth + 1)
    missed = [one["text"] for one in log if "missed the closing" in one["text"]]
    if found is None or not any("closing ]" in one for one in missed):
        return found
    is_last_whole = rest.rstrip(" \t\r\n,`").endswith("}") and not any("quote" in one for one in missed)
    if is_last_whole:
        return replace(found, complete=not is_listed)
    return Found(found.operations[:-1], complete=False)
