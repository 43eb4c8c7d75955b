"""Lists of working memory in pages, and what is hidden in them."""

import pytest

from daemon import sessions
from daemon.workspace.stores import Store
from state.errors import UsageError
from state.sessions.item import Item
from state.sessions.page import Wanted
from tests.daemon.sessions.test_tools import LISTS
from tests.support.working import AT, MINUTE, add


@pytest.mark.parametrize("name", LISTS)
def test_the_pages_of_a_list_are_the_list(store: Store, name: str) -> None:
    for number in range(7):
        add(store, f"item {number}", now=AT + number * MINUTE)
    if name == "recall":
        sessions.clear_session(store, "s", AT)
    whole = LISTS[name](store, Wanted()).memories
    assert len(whole) == 7
    read = list[Item]()
    cursor = ""
    while True:
        part = LISTS[name](store, Wanted(3, cursor))
        assert len(part.memories) <= 3
        read += part.memories
        if part.next_cursor is None:
            break
        cursor = part.next_cursor
    assert tuple(read) == whole
    with pytest.raises(UsageError, match="cursor: 'gone' is not in this list any more"):
        LISTS[name](store, Wanted(3, "gone"))
