from datetime import timedelta

from state.sessions.item import Priority, State
from state.sessions.policies.bounded import Bounded
from state.sessions.policies.budget import Budget
from state.sessions.policies.hybrid import Hybrid
from state.sessions.policies.ttl import Ttl
from state.sessions.stats import Leaver, capacity, session_stats
from tests.state.sessions.shelves import HOUR, START, ListShelf, item

SOON = START + timedelta(hours=1)


def test_active_and_expired_make_up_the_total_and_the_rest_lies_over_both() -> None:
    items = [
        item(0, priority=Priority.LOW, expires_at=START, access_count=3, importance_score=0.2),
        item(1, expires_at=SOON, promoted_to="c", importance_score=0.7),
        item(2, priority=Priority.CRITICAL, expires_at=SOON, importance_score=0.6, token_count=7),
        item(3, priority=Priority.CRITICAL, expires_at=SOON, state=State.HIDDEN, importance_score=0.5),
    ]
    now = session_stats("s", Ttl(), ListShelf(items), START)
    assert (now.total_count, now.active_count, now.expired_count) == (4, 3, 1)
    assert (now.hidden_count, now.promoted_count, now.pending_promotion) == (1, 1, 1)
    assert (now.avg_access_count, now.avg_importance) == (1.5, 0.5)
    assert now.by_priority == {"low": 1, "medium": 1, "high": 0, "critical": 2}
    assert (now.capacity.tokens, now.capacity.max_items, now.capacity.status) == (10, None, "healthy")
    assert now.next_to_leave == (
        Leaver("item-0", "archive", "expired"),
        Leaver("item-1", "archive", "expired"),
        Leaver("item-2", "promote", "critical_and_accessed"),
        Leaver("item-3", "archive", "expired"),
    )


def test_an_empty_session_stands_at_nothing() -> None:
    now = session_stats("s", Ttl(), ListShelf([]), START)
    assert (now.total_count, now.avg_access_count, now.avg_importance, now.next_to_leave) == (0, 0.0, 0.0, ())


def test_the_next_five_are_told_in_their_order() -> None:
    items = [item(seq, importance=1 - seq / 10) for seq in range(8)]
    now = session_stats("s", Hybrid(max_tokens=10), ListShelf(items), START)
    assert [leaver.id for leaver in now.next_to_leave] == ["item-7", "item-6", "item-5", "item-4", "item-3"]
    assert (now.capacity.utilisation, now.capacity.available_tokens) == (80.0, 2)


def test_the_step_is_the_highest() -> None:
    old = item(0, step_index=3, created_at=START - 2 * HOUR)
    now = session_stats("s", Bounded(), ListShelf([old, item(1, step_index=9)]), START)
    assert now.step == 9
    assert now.next_to_leave[0] == Leaver("item-0", "archive", "capacity_exceeded_expired")


def test_capacity_says_what_fits_and_what_is_left() -> None:
    bounded = capacity(Bounded(), 60, 4_000)
    assert (bounded.max_items, bounded.available_items) == (64, 4)
    assert (bounded.max_tokens, bounded.available_tokens) == (4_000, 0)
    assert (bounded.policy, bounded.settings["recent_window"]) == ("bounded", 5)
    budget = capacity(Budget(), 52, 9_999)
    assert (budget.available_items, budget.available_tokens, budget.status) == (0, None, "hard_limit")
