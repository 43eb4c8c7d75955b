"""Page: a long list in parts, with a cursor for the next part."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TypeVar

from state.errors import UsageError
from state.sessions.checks import shown

LIMIT = 50
MOST = 1_000
# A page ends where its texts exceed this together, but has at least one item.
MOST_CHARACTERS = 100_000

ListedT = TypeVar("ListedT")


def page(
    items: Iterable[ListedT],
    limit: int | None,
    cursor: str,
    id_of: Callable[[ListedT], str] = attrgetter("id"),
    text_of: Callable[[ListedT], str] = attrgetter("content"),
) -> tuple[tuple[ListedT, ...], str | None]:
    """Return at most `limit` items (None: all) after the one with the id `cursor`, and the next cursor.

    Raise UsageError if the cursor is no longer in the list.
    """
    rest = iter(items)
    if cursor and all(id_of(one) != cursor for one in rest):  # advances `rest` to it
        raise UsageError(f"cursor: {shown(cursor)} is not in this list any more", "begin without a cursor")
    if limit is None:
        return tuple(rest), None
    taken: list[ListedT] = []
    characters = 0
    for one in rest:
        characters += len(text_of(one))
        if taken and (len(taken) == limit or characters > MOST_CHARACTERS):
            return tuple(taken), id_of(taken[-1])
        taken.append(one)
    return tuple(taken), None
