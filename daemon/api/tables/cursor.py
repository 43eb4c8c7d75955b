"""Cursor: where the next part of a sorted list begins, as a caller is given it and gives it back.

It names the place of the last row rather than a number of rows, so that what is written meanwhile moves nothing. It
holds sorted values, numbers and digests, and no word of a memory.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from typing import TypeVar

from state.errors import UsageError

MAX_CHARACTERS = 1_000
_MOST = 2**63

PartT = TypeVar("PartT", str, int, float)


def written(order: str, *place: str | float) -> str:
    """Return the cursor of a place in the list that is sorted so."""
    return urlsafe_b64encode(json.dumps([order, *place]).encode()).decode().rstrip("=")


def place_in(cursor: str, order: str, *kinds: type[PartT]) -> tuple[PartT, ...]:
    """Return the place that `written` has written, of these kinds. Raise UsageError for any other text, or order."""
    try:
        said = json.loads(urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        return tuple(_parts(said, order, kinds))
    except (ValueError, RecursionError) as error:
        raise UsageError("cursor: it is not of this list in this order", "begin without a cursor") from error


def _parts(said: object, order: str, kinds: Sequence[type[PartT]]) -> Iterator[PartT]:
    """Return the parts of a place, as SQLite takes them. Raise ValueError."""
    if not isinstance(said, list) or said[:1] != [order]:
        raise ValueError(order)
    for part, kind in zip(said[1:], kinds, strict=True):
        if isinstance(part, kind) and _is_kept(part):
            yield part
        else:
            raise ValueError(kind)


def _is_kept(part: str | float) -> bool:
    """Tell whether SQLite can keep it; not a text with half a pair of surrogates, nor too large a number."""
    if isinstance(part, str):
        return all(not 0xD800 <= ord(char) < 0xE000 for char in part)
    return not isinstance(part, bool) and abs(part) < _MOST
