"""Regular expressions: every one of the program's, and texts by which one with two ways to read a run is found out.

For each repeated part of an expression: what may stand before it, the part itself, and an end that it does not match.
"""

import importlib
import inspect
import pkgutil
import random
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import daemon
import graphs
import state
from state.text.patterns import late_pattern

# The parser of Python itself, which has no types.
kind: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
_LATE = type(late_pattern(""))
_REPEATS = (kind.MAX_REPEAT, kind.MIN_REPEAT, kind.POSSESSIVE_REPEAT)
_SPELT = (kind.LITERAL, kind.RANGE)
_MANY = 10
_SAMPLES = 2
_ENDS = ("", "§", "§ ab", "!", "\n")
_SIGNS = tuple(map(chr, range(32, 127))) + tuple("\n\téßñΩж漢あ한ก§…•“”«»—、。")
_CATEGORIES: Mapping[Any, Callable[[str], bool]] = {
    kind.CATEGORY_DIGIT: str.isdecimal,
    kind.CATEGORY_SPACE: str.isspace,
    kind.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
    kind.CATEGORY_NOT_DIGIT: lambda sign: not sign.isdecimal(),
    kind.CATEGORY_NOT_SPACE: lambda sign: not sign.isspace(),
    kind.CATEGORY_NOT_WORD: lambda sign: not (sign.isalnum() or sign == "_"),
}


def every_expression() -> Mapping[str, re.Pattern[str]]:
    """All of the three packages, by the name of their variable or function."""
    found = dict[str, re.Pattern[str]]()
    for package in (daemon, graphs, state):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                found |= _of_module(importlib.import_module(module.name))
    return found


def _of_module(module: ModuleType) -> dict[str, re.Pattern[str]]:
    found = dict[str, re.Pattern[str]]()
    for name, value in vars(module).items():
        one = re.compile(value.pattern, value.flags) if isinstance(value, _LATE) else value
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "cache_info"):
            signature = inspect.signature(value)
            if not signature.parameters and "Pattern[str]" in str(signature.return_annotation):
                one = value()
        several = (
            one if isinstance(one, dict) else dict(enumerate(one)) if isinstance(one, tuple | list) else {"": one}
        )
        for key, each in several.items():
            if isinstance(each, re.Pattern) and isinstance(each.pattern, str):
                found[f"{module.__name__}.{name}{key}"] = each
    return found


def attacks(expression: re.Pattern[str], chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """A beginning, what is to be repeated, and an end."""
    for before, part in _repeats(list(parser.parse(expression.pattern, expression.flags)), []):
        for _ in range(_SAMPLES):
            twice = part if chance.random() < 0.5 else [*part, *part]
            yield _sample(before, chance), _sample(twice, chance), chance.choice(_ENDS)
        yield "", _sample(part, chance), "§"


def _repeats(tree: list[Any], before: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Each part that may be repeated often, and what stands before it."""
    for at, (what, given) in enumerate(tree):
        here = [*before, *tree[:at]]
        if what in _REPEATS and int(given[1]) >= _MANY:
            yield here, list(given[2])
        for part in _parts(what, given):
            yield from _repeats(list(part), here)


def _parts(what: object, given: Any) -> list[Any]:
    if what is kind.BRANCH:
        return list(given[1])
    if what in _REPEATS:
        return [given[2]]
    if what is kind.SUBPATTERN:
        return [given[3]]
    if what in (kind.ASSERT, kind.ASSERT_NOT):
        return [given[1]]
    return [given] if what is kind.ATOMIC_GROUP else []


def _sample(tree: list[Any], chance: random.Random) -> str:
    """A text that the tree matches, as far as that is known without what stands around it."""
    text = ""
    for what, given in tree:
        if what is kind.LITERAL:
            text += chr(given)
        elif what in (kind.IN, kind.NOT_LITERAL, kind.ANY):
            items = given if what is kind.IN else [(kind.NEGATE, None), *([(kind.LITERAL, given)] if given else [])]
            text += chance.choice(_signs(items))
        elif what in _REPEATS:
            text += "".join(_sample(list(given[2]), chance) for _ in range(min(int(given[1]), given[0] + 1)))
        elif what is kind.BRANCH:
            text += _sample(list(chance.choice(given[1])), chance)
        elif what in (kind.SUBPATTERN, kind.ATOMIC_GROUP):
            text += _sample(list(_parts(what, given)[0]), chance)
    return text


def _signs(items: list[Any]) -> list[str]:
    negated = bool(items) and items[0][0] is kind.NEGATE
    fitting = [sign for sign in _SIGNS if any(_fits(sign, *item) for item in items) is not negated]
    firsts = [chr(given[0] if what is kind.RANGE else given) for what, given in items if what in _SPELT]
    return fitting or firsts or ["a"]


def _fits(sign: str, what: object, given: Any) -> bool:
    if what is kind.LITERAL:
        return bool(ord(sign) == given)
    if what is kind.RANGE:
        return bool(given[0] <= ord(sign) <= given[1])
    return what is kind.CATEGORY and _CATEGORIES[given](sign)
