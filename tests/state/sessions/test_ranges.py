from state.sessions.policies.policy import EVERYTHING, HIDDEN, LIVE, Range, meet
from tests.state.sessions.shelves import HOUR, START


def test_what_is_in_all_is_in_the_narrowest() -> None:
    old, young = (
        Range(created_before=START, step_from=3),
        Range(created_from=START - HOUR, step_from=5, step_before=9),
    )
    assert meet(LIVE, old, young, EVERYTHING) == Range(LIVE.state, None, None, START - HOUR, START, 5, 9)
    assert meet(Range(importance_from=0.3), Range(importance_below=0.7), Range(importance_from=0.2)) == Range(
        None, 0.3, 0.7
    )
    assert meet() == EVERYTHING


def test_a_range_that_cannot_hold_anything_is_none() -> None:
    assert meet(LIVE, HIDDEN) is None
    assert meet(LIVE, LIVE) == LIVE
    assert meet(Range(importance_from=0.3), Range(importance_below=0.3)) is None
    assert meet(Range(created_from=START), Range(created_before=START)) is None
    assert meet(Range(step_from=5), Range(step_before=5)) is None
    assert meet(Range(step_from=5), Range(step_before=6)) == Range(step_from=5, step_before=6)


def test_no_step_is_before_the_first() -> None:
    assert meet(Range(step_before=0)) is None
    assert meet(Range(step_from=-5), Range(step_before=-1)) is None
    assert meet(Range(step_before=1)) == Range(step_before=1)
