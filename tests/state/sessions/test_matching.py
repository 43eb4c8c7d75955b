from itertools import islice

import pytest

from state.errors import UsageError
from state.sessions.item import Priority, State
from state.sessions.search import ItemFilters, filters_of, matching_items, search
from tests.state.sessions.shelves import HOUR, MINUTE, START, ListShelf, item, seqs

ANY = ItemFilters()


def test_relevance_is_of_place_use_and_importance() -> None:
    one = item(content="abcdefghij", access_count=5, importance_score=0.5)
    (found,) = search([one], "CD", ANY)
    assert found.relevance == 0.68  # .6 · .8 + .2 · .5 + .2 · .5
    assert search([one], "x", ANY) == ()
    (all_of_it,) = search([item(content="abc", access_count=20, importance_score=1.0)], "a", ANY)
    assert all_of_it.relevance == 1.0


def test_without_a_query_the_first_term_is_full() -> None:
    (found,) = search([item(access_count=1, importance_score=0.25)], "", ANY)
    assert found.relevance == 0.67  # .6 + .02 + .05


def test_the_most_relevant_comes_first_and_of_equals_the_oldest() -> None:
    items = [
        item(0, content="the notes", created_at=START + MINUTE),
        item(1, content="notes are", created_at=START + MINUTE),
        item(2, content="notes too", created_at=START),
    ]
    assert seqs([found.item for found in search(items, "notes", ANY)]) == [2, 1, 0]


def test_letters_match_in_any_case_and_tags_only_in_theirs() -> None:
    one = item(content="Straße nach BONN", tags=("Travel", "de"))
    assert search([one], "STRASSE", ANY)
    assert search([one], "bonn", ItemFilters(tags=("de", "xx")))
    assert not search([one], "bonn", ItemFilters(tags=("travel",)))
    assert not search([one], "bonn", ItemFilters(priority=Priority.HIGH))
    assert search([one], "bonn", ItemFilters(priority=Priority.MEDIUM))


def test_a_query_is_no_pattern() -> None:
    assert not search([item(content="100 percent")], "100%", ANY)
    assert not search([item(content="abc")], "a.c", ANY)
    assert search([item(content="a.c [x] \\d")], "[X] \\D", ANY)


def test_remembered_by_importance_then_the_newest() -> None:
    items = [
        item(0, importance=0.5, created_at=START),
        item(1, importance=0.9, created_at=START - HOUR),
        item(2, importance=0.5, created_at=START + MINUTE),
        item(3, importance=0.5, created_at=START + MINUTE),
        item(4, importance=0.9, state=State.HIDDEN),
        item(5, importance=1.0, expires_at=START),
    ]
    shelf = ListShelf(items)
    assert seqs(matching_items(shelf, "", ANY, START)) == [1, 3, 2, 0]
    assert seqs(islice(matching_items(shelf, "  ", ANY, START), 2)) == [1, 3]
    assert seqs(matching_items(shelf, "note 2", ANY, START)) == [1, 3, 2, 0], "they share the word"


def test_a_prompt_is_about_what_holds_it_or_shares_a_word_that_means_something() -> None:
    items = [
        item(0, content="Anna moved to Bonn"),
        item(1, content="the invoices are in the drawer"),
        item(2, content="what did she want with it"),
        item(3, content="東京都に住んでいる"),
    ]
    shelf = ListShelf(items)
    assert seqs(matching_items(shelf, "where did Anna move?", ANY, START)) == [0]
    assert seqs(matching_items(shelf, "INVOICE", ANY, START)) == [1]
    assert seqs(matching_items(shelf, "what did", ANY, START)) == [2]
    assert seqs(matching_items(shelf, "東京", ANY, START)) == [3]
    assert seqs(matching_items(shelf, "nothing of the kind", ANY, START)) == []


def test_remembering_goes_no_further_than_it_is_asked() -> None:
    shelf = ListShelf([item(seq) for seq in range(1000)])
    assert len(list(islice(matching_items(shelf, "", ANY, START), 3))) == 3
    assert shelf.read == 3


def test_filters_are_read_by_their_names() -> None:
    filters = filters_of({"tags": ["a"], "priority": "high", "agent_id": "planner", "source": "chat"})
    assert filters == ItemFilters(("a",), Priority.HIGH, "planner", "chat")
    assert filters_of({}) == ANY
    one = item(tags=("b", "a"), priority=Priority.HIGH, agent="planner", source="chat")
    assert filters.let(one)
    assert not filters.let(item(tags=("a",), priority=Priority.HIGH, agent="other", source="chat"))
    assert not filters.let(item(tags=("a",), priority=Priority.HIGH, agent="planner"))


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"tag": ["a"]}, "'tag'"),
        ({"tags": "a"}, "tags:"),
        ({"priority": "top"}, "priority:"),
        ({"agent_id": 5}, "agent_id: 5"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(config: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        filters_of(config)
