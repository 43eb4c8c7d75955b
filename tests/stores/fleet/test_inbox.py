"""What is acknowledged is there once, whoever says it, how often, and at the same moment as whom."""

import pytest

from state.errors import UsageError
from state.fleet import Place
from state.stores.fleet.inbox import KEY_CHARACTERS, Arrival, Arrived
from tests.stores.fleet.fleet import Fleet, commit_of, together


def note(place: Place, key: str, body: str = "{}") -> Arrival:
    return Arrival(place.id, place.tenant, "note", key, body)


def put(fleet: Fleet, *arrivals: Arrival) -> list[Arrived]:
    """Put what has a place."""
    answers = fleet.inbox.put(arrivals)
    found = [arrived for arrived in answers if arrived is not None]
    assert len(found) == len(answers)
    return found


def test_the_same_key_from_twenty_at_once_is_one_row_and_all_are_told_it(fleet: Fleet) -> None:
    place = fleet.place()
    answers = together(*[lambda: fleet.inbox.put([note(place, "k")])] * 20)
    flat = [arrived for [arrived] in answers]
    assert all(isinstance(arrived, Arrived) and arrived.same for arrived in flat)
    assert len({(arrived.id, arrived.at) for arrived in flat}) == 1
    assert [row.key for row in fleet.inbox.waiting(place.id)] == ["k"]
    assert fleet.inbox.notes_this_minute(place.tenant) in (0, 1), "0 when the minute has just passed"


def test_batches_in_opposite_order_hold_nobody_up(fleet: Fleet) -> None:
    places = [fleet.place() for _ in range(20)]
    both = places, list(reversed(places))
    for round_ in range(10):
        answers = together(
            *[
                lambda order=order, name=name, round_=round_: fleet.inbox.put(
                    [note(place, f"{round_}-{name}-{place.id % 3}") for place in order]
                    + [note(place, f"{round_}-shared") for place in order]
                )
                for name in "abc"
                for order in both
            ]
        )
        assert not [answer for answer in answers if isinstance(answer, Exception)]
    for place in places:
        keys = [row.key for row in fleet.inbox.waiting(place.id)]
        assert len(keys) == len(set(keys)) == 40


@pytest.mark.parametrize(
    ("key", "body", "said"),
    [(key, "{}", "is no key") for key in ("", "a\0b", "\ud800", "k" * (KEY_CHARACTERS + 1))]
    + [("k", body, "NUL or half a character") for body in ("a\0b", '"\udfff"')],
)
def test_what_no_row_can_hold_is_refused_before_its_batch(key: str, body: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Arrival(1, 1, "note", key, body)


def test_keys_are_forgotten_after_a_week_and_what_waits_never(fleet: Fleet) -> None:
    place = fleet.place()
    taken, _ = fleet.put(place), fleet.put(place)
    lease = fleet.lease(place)
    fleet.leases.commit(lease, commit_of(lease, taken=(taken,)))
    assert fleet.inbox.sweep() == 0
    fleet.database.rows("UPDATE inbox SET at = at - interval '9 days', taken_at = taken_at - interval '8 days'")
    assert fleet.inbox.sweep() == 1
    assert len(fleet.inbox.waiting(place.id)) == 1
