import pytest

from state.errors import UsageError
from state.sessions.context import Strategy, assemble, balance, strategy_of
from state.sessions.item import Item, State
from tests.state.sessions.shelves import HOUR, MINUTE, START, ListShelf, item, seqs


def three() -> list[Item]:
    """Old and important, new and not, in between."""
    return [
        item(0, content="zero", importance=0.9, token_count=10, created_at=START - 8 * HOUR),
        item(1, content="one", importance=0.2, token_count=10, created_at=START),
        item(2, content="two", importance=0.5, token_count=10, created_at=START - HOUR),
    ]


def taken(strategy: Strategy, max_tokens: int, items: list[Item] | None = None) -> list[int]:
    return seqs(assemble(ListShelf(items or three()), strategy, max_tokens, START).items)


def test_each_strategy_has_its_order() -> None:
    assert taken(Strategy.RECENT, 100) == [1, 2, 0]
    assert taken(Strategy.IMPORTANT, 100) == [0, 2, 1]
    assert taken(Strategy.BALANCED, 100) == [2, 1, 0]  # .25, .2, .1


def test_balance_is_importance_over_one_and_the_hours() -> None:
    assert [balance(one, START) for one in three()] == [pytest.approx(0.1), 0.2, 0.25]
    assert balance(item(created_at=START + HOUR, importance=0.4), START) == 0.4


def test_it_stops_at_the_first_that_does_not_fit() -> None:
    items = [
        item(0, token_count=5, importance=0.9),
        item(1, token_count=6, importance=0.8),
        item(2, token_count=1, importance=0.7),
    ]
    assert taken(Strategy.IMPORTANT, 12, items) == [0, 1, 2]
    assert taken(Strategy.IMPORTANT, 11, items) == [0, 1]
    assert taken(Strategy.IMPORTANT, 10, items) == [0], "the third would fit, and is not reached"
    assert taken(Strategy.IMPORTANT, 4, items) == []


def test_items_are_joined_by_a_blank_line() -> None:
    context = assemble(ListShelf(three()), Strategy.RECENT, 20, START)
    assert (context.text, context.tokens) == ("one\n\ntwo", 20)
    empty = assemble(ListShelf([]), Strategy.RECENT, 20, START)
    assert (empty.text, empty.tokens, empty.items) == ("", 0, ())


def test_of_equals_the_newest_comes_first_and_then_the_last_that_came() -> None:
    items = [item(0), item(1), item(2, created_at=START - MINUTE)]
    for strategy in (Strategy.RECENT, Strategy.IMPORTANT, Strategy.BALANCED):
        assert taken(strategy, 100, items) == [1, 0, 2]


def test_what_is_hidden_or_expired_is_left_out() -> None:
    items = [item(0, state=State.HIDDEN), item(1, expires_at=START), item(2, expires_at=START + MINUTE)]
    for strategy in Strategy:
        assert taken(strategy, 100, items) == [2]


def test_names_and_limits_that_cannot_be_meant_are_refused() -> None:
    assert strategy_of("balanced") is Strategy.BALANCED
    with pytest.raises(UsageError, match="strategy: 'best' is none of recent, important, balanced"):
        strategy_of("best")
    with pytest.raises(UsageError, match="max_tokens"):
        assemble(ListShelf([]), Strategy.RECENT, 0, START)
