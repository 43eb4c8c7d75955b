"""Hints: literals of which a pattern needs one, so that most patterns need not be tried on most texts.

They are read off the pattern as the interpreter parses it. To look for a hint in a text costs a hundredth of what the
pattern costs. Those of the tables of this room are stored in hints.json (`python -m benchmarks.hints` writes it): to
read them off at each start would take longer than all else that a short command does.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from re import _constants as op
from typing import Any

Hints = frozenset[str]
NONE: Hints = frozenset()

_SHORTEST = 2
_LONGEST = 4  # from so many characters on, fewer hints are better than longer ones
_GRAM = 3
STORED = Path(__file__).with_name("hints.json")
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


class Pieces:
    """The pieces of one text: whether a hint is in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._grams = {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)}

    def may_match(self, hints: Hints) -> bool:
        """False only where no text with these hints can match; a pattern without hints may always."""
        return not hints or any(map(self._has, hints))

    def of(self, hints: Hints) -> list[str]:
        """Those of the hints that are in the text."""
        return [hint for hint in hints if self._has(hint)]

    def _has(self, hint: str) -> bool:
        return (len(hint) < _GRAM or hint[:_GRAM] in self._grams) and hint in self._text


def hints_of(pattern: str) -> Hints:
    """Literals of which at least one is in every match of the (case-sensitive) pattern; empty: nothing is known."""
    stored = _stored().get(pattern)
    return read_off(pattern) if stored is None else frozenset(stored)


@cache
def _stored() -> dict[str, list[str]]:
    stored: dict[str, list[str]] = json.loads(STORED.read_text("utf-8"))
    return stored


def read_off(pattern: str) -> Hints:
    """The hints of a pattern, read off its parse tree."""
    from re import _parser as parser

    return _of(parser.parse(pattern))


def _of(sequence: Iterable[tuple[Any, Any]]) -> Hints:
    """Of what has to follow each other, the part with the best hints."""
    found, run = [], ""
    for code, argument in sequence:
        if code is op.LITERAL:
            run += chr(argument)
            continue
        found += [frozenset((run,)), _of_part(code, argument)]
        run = ""
    best = max((*found, frozenset((run,))), key=_worth)
    return best if _worth(best) else NONE


def _of_part(code: object, argument: Any) -> Hints:  # noqa: ANN401 - the parser's own
    if code is op.SUBPATTERN:
        return _of(argument[3])
    if code is op.ATOMIC_GROUP:
        return _of(argument)
    if code in _REPEATS and argument[0] > 0:
        return _of(argument[2])
    return _of_branches(argument[1]) if code is op.BRANCH else NONE


def _of_branches(branches: Sequence[Any]) -> Hints:
    parts = [_of(branch) for branch in branches]
    return frozenset().union(*parts) if all(map(_worth, parts)) else NONE


def _worth(hints: Hints) -> tuple[int, int] | tuple[()]:
    """The longer its shortest piece, the better, then the fewer; () for what is no hint."""
    shortest = min(map(len, hints), default=0)
    return (min(shortest, _LONGEST), -len(hints)) if shortest >= _SHORTEST else ()
