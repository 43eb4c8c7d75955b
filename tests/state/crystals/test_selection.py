from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Kind, Origin, mix_kinds

AT = datetime(2026, 3, 1, tzinfo=UTC)


def _crystal(number: int, kind: Kind, importance: float) -> Crystal:
    return Crystal(f"{kind.value} {number}", Origin.SESSION, AT, kind=kind, importance=importance)


MANY = st.lists(st.tuples(st.sampled_from(list(Kind)), st.floats(0, 1)).map(lambda pair: pair), max_size=120).map(
    lambda pairs: [_crystal(number, kind, importance) for number, (kind, importance) in enumerate(pairs)]
)


def test_with_a_hundred_important_episodes_goals_facts_and_relationships_still_come_through() -> None:
    crystals = [_crystal(number, Kind.EPISODE, 0.95) for number in range(100)]
    crystals += [
        _crystal(number, kind, 0.3) for kind in (Kind.GOAL, Kind.FACT, Kind.RELATIONSHIP) for number in range(3)
    ]
    mixed = mix_kinds(crystals, 50)
    counts = {kind: sum(crystal.kind is kind for crystal in mixed) for kind in Kind}
    assert len(mixed) == 50
    assert counts[Kind.GOAL] == counts[Kind.FACT] == counts[Kind.RELATIONSHIP] == 3
    assert counts[Kind.EPISODE] == 41


@given(MANY, st.integers(0, 60))
def test_no_more_than_the_limit_most_important_first_and_nothing_twice(crystals: list[Crystal], limit: int) -> None:
    mixed = mix_kinds(crystals, limit)
    assert len(mixed) == min(limit, len(crystals))
    assert [crystal.importance for crystal in mixed] == sorted((c.importance for c in mixed), reverse=True)
    assert len({crystal.text for crystal in mixed}) == len(mixed)


@given(MANY, st.integers(1, 60))
def test_the_most_important_of_all_is_always_taken(crystals: list[Crystal], limit: int) -> None:
    if crystals:
        best = max(crystal.importance for crystal in crystals)
        assert mix_kinds(crystals, limit)[0].importance == best


def test_a_kind_that_is_alone_takes_every_place() -> None:
    crystals = [_crystal(number, Kind.FACT, number / 10) for number in range(10)]
    assert mix_kinds(crystals, 4) == crystals[:-5:-1]
