"""Page: a long list in parts, with a cursor for the next part."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from state.errors import UsageError
from state.sessions.checks import at_least_one, shown

LIMIT = 50
MOST = 1_000
# A page ends where its texts are longer than this together, but for its first one.
MOST_CHARACTERS = 100_000

Listed = TypeVar("Listed")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a list: so many (None: all, however long), after the one of this id ("": from the top)."""

    limit: int | None = None
    cursor: str = ""


ALL = Wanted()


@dataclass(frozen=True, slots=True)
class Page(Generic[Listed]):
    """A part of a list. `next_cursor` is where the next one begins; None: there is no more."""

    items: tuple[Listed, ...]
    next_cursor: str | None = None


def page(
    items: Iterable[Listed],
    wanted: Wanted,
    id_of: Callable[[Listed], str] = attrgetter("id"),
    text_of: Callable[[Listed], str] = attrgetter("content"),
) -> Page[Listed]:
    """Return the wanted part. Raise UsageError for a limit below 1, or a cursor that is not in the list any more."""
    most = wanted.limit
    if most is not None:
        at_least_one("limit", most)
    rest = iter(items)
    if wanted.cursor and all(id_of(one) != wanted.cursor for one in rest):  # reads up to it
        raise UsageError(f"cursor: {shown(wanted.cursor)} is not in this list any more", "begin without a cursor")
    if most is None:
        return Page(tuple(rest))
    taken: list[Listed] = []
    characters = 0
    for one in rest:
        characters += len(text_of(one))
        if taken and (len(taken) == most or characters > MOST_CHARACTERS):
            return Page(tuple(taken), id_of(taken[-1]))
        taken.append(one)
    return Page(tuple(taken))
