"""Patterns: the table of prompt-injection tricks that `defang` searches for.

The table is patterns.toml. On poisoned texts that it was not written for it saw about half: a first net, while
quoting and `defang` hold whatever passes it.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from state.errors import ConfigError
from state.injection.hints import Hints, hints_of
from state.text.patterns import late_pattern

_FILE = Path(__file__).with_name("patterns.toml")
_BREAK = re.compile(r"\n\s*")


class Poison(StrEnum):
    """The kinds of trick."""

    OVERRIDE = "override"
    ROLE = "role"
    STANDING_ORDER = "standing order"
    FAKE_SYSTEM = "fake system text"
    TOOL_CALL = "tool call"
    MEMORY_ORDER = "order to remember"
    EXFILTRATION = "exfiltration"
    CONCEALMENT = "concealment"
    PROMPT_THEFT = "prompt theft"
    AUTHORITY = "false authority"
    ADDRESS = "address to an AI"
    ENCODED = "encoded"
    OBFUSCATED = "obfuscated"
    HIDDEN = "hidden text"
    STRUCTURE = "forged structure"
    POINTER = "forged pointer"
    LOG_ENTRY = "forged log entry"
    UNREAD = "too much to read"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: what kind of trick a pattern speaks for, and in features.toml how much and by which name."""

    kind: Poison
    pattern: str
    name: str
    weight: float


@dataclass(frozen=True, slots=True)
class Shown:
    """A pattern that shows a kind of trick, and the literals (hints) of which it needs one."""

    kind: Poison
    pattern: re.Pattern[str]
    hints: Hints


@cache
def written_patterns() -> tuple[Shown, ...]:
    """Compiled when first used: most commands never need them."""
    return _shown("written", re.MULTILINE)


@cache
def spoken_patterns() -> tuple[Shown, ...]:
    """Compiled when first used."""
    return _shown("spoken", 0)


@cache
def squeezed_pattern() -> re.Pattern[str]:
    """For text of which only letters are left, with every l written as i: 1 may stand for both."""
    return re.compile(_joined(_table()["squeezed"]).replace("l", "i"))


def _shown(name: str, flags: int) -> tuple[Shown, ...]:
    shown = []
    for row in read_rows(_table(), name):
        pattern = plain_pattern(row.pattern)
        shown.append(Shown(row.kind, late_pattern(pattern, flags), hints_of(pattern)))
    return tuple(shown)


def read_table(file: Path) -> dict[str, Any]:
    """A TOML file. Raises ConfigError when it is none."""
    import tomllib  # most commands never need it

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file.name} is no TOML: {error}", "correct the line that it names") from error


def read_rows(table: dict[str, Any], name: str) -> Iterator[Row]:
    """The rows of this name in a table. Raises ConfigError for one with another key, kind or type of value."""
    for number, row in enumerate(table.get(name, []), 1):
        try:
            kind, pattern = Poison(row["kind"]), _joined(row["pattern"])
            weight = float(row.get("weight", 0.0))
            read = Row(**{"name": "", **row, "kind": kind, "pattern": pattern, "weight": weight})
        except (KeyError, TypeError, ValueError) as error:
            advice = "a row has a kind, a pattern, and in features.toml a name and a weight"
            raise ConfigError(f"[[{name}]] number {number}: {error}", advice) from error
        yield read


def _joined(pattern: str) -> str:
    """A pattern that goes on in the next line, on one line."""
    return _BREAK.sub("", pattern.strip("\n"))


@cache
def _table() -> dict[str, Any]:
    return read_table(_FILE)


def plain_pattern(pattern: str) -> str:
    """Without accents, as folded text is (nor has й its breve there): a table may be written as languages write."""
    for name, part in _table()["parts"].items():
        pattern = pattern.replace(name, _joined(part))
    bare = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", pattern)))
    return unicodedata.normalize("NFC", bare)
