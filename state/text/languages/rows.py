"""Rows: a quick reader of TOML files that have rows of words and nothing else, for what short commands need.

It is several times faster than a reader of all that TOML knows, and that need not be loaded.
"""

import json
import re

from state.errors import ConfigError

_ROW = re.compile(r"^(\w+) = \[([^\]]*)\]$", re.MULTILINE)
_COMMENT = re.compile(r"^#.*$", re.MULTILINE)


def word_rows(file: str, text: str) -> dict[str, list[str]]:
    """The rows of a file by their names; empty where one is no list of words.

    Raises ConfigError for what is no row.
    """
    around = _ROW.split(text)  # what stands before a row, its name, its words, and so on
    rows = {name: _words(words) for name, words in zip(around[1::3], around[2::3], strict=True)}
    if left := _COMMENT.sub("", "".join(around[::3])).split():
        raise ConfigError(f"{file}: {left[0]!r} is in no row", 'a row is: name = ["word", "other word"]')
    return rows


def _words(quoted: str) -> list[str]:
    """The words of a row; none where one of them is no word in quotation marks."""
    try:
        words = json.loads(f"[{quoted.rstrip().removesuffix(',')}]")
    except ValueError:
        return []
    return words if all(isinstance(word, str) and word for word in words) else []
