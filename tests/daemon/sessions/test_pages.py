"""Lists of working memory in pages, and what is hidden in them."""

import pytest

from daemon import sessions
from daemon.workspace.stores import Store
from state.errors import UsageError
from state.sessions.item import Item
from state.sessions.page import Wanted
from tests.daemon.sessions.test_tools import LISTS
from tests.support.working import AT, MINUTE, add, contents, deeds


def test_what_was_softly_forgotten_is_brought_back_and_marked_until_then(store: Store) -> None:
    id_ = add(store, "hidden for a while")
    sessions.forget(store, "s", f"id:{id_}", AT)
    for found in (sessions.list_memories(store, "s", AT), sessions.search(store, "s", AT)):
        assert [one.state for one in found.memories] == ["hidden"]
    assert sessions.get(store, "s", id_, AT).state == "hidden"
    assert sessions.remember(store, "s", AT).count == 0
    back = sessions.restore(store, "s", id_, AT)
    assert (back.restored, back.memory.state, back.memory.state_reason) == (True, "live", "")
    assert contents(sessions.remember(store, "s", AT)) == ["hidden for a while"]
    assert deeds(store)[-2:] == [("hidden", "id"), ("restored", "id")]
    assert sessions.restore(store, "s", id_, AT).restored
    assert len(deeds(store)) == 4


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


def test_a_page_of_long_memories_is_short(store: Store) -> None:
    for number in range(5):
        add(store, f"{number}" * 60_000)
    assert [len(one.content) for one in sessions.list_memories(store, "s", AT, wanted=Wanted(5)).memories] == [60_000]
    assert sessions.list_memories(store, "s", AT).count == 5
