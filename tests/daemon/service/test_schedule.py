"""The scheduler over simulated weeks, and what holds for any input whatever."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from daemon.service.schedule import Action, History, Pending, Thresholds, due, phase, upcoming
from state.dream import Reason
from tests.support.long_variants import examples
from tests.support.simulated_service import DAY, MINUTE, NEW, START, TICK, USUAL, World

HOUR = timedelta(hours=1)
ENDINGS = ["committed", "committed", "failed", "ceiling"]
Event = tuple[str, float]
MINUTES = st.one_of(st.floats(0, 3), st.floats(0, 40), st.floats(0, 600), st.floats(0, 2000))
ORDINARY: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.just("note"), st.integers(1, 3000).map(float)),
    st.tuples(st.just("burst"), st.integers(2, 30).map(float)),
    st.tuples(st.just("session end"), st.just(0.0)),
    st.tuples(st.just("transcript"), st.integers(1, 12).map(float)),
    st.tuples(st.just("sleep"), st.floats(1, 5000)),
    st.tuples(st.just("spike"), st.floats(1, 60)),
)
CLOCK: st.SearchStrategy[Event] = st.tuples(
    st.just("clock"), st.one_of(st.floats(-120, 120), st.floats(-4000, 4000), st.just(-525_600.0), st.just(525_600.0))
)
PLACE = st.floats(0, 1, exclude_max=True)


def weeks(event: st.SearchStrategy[Event]) -> st.SearchStrategy[list[tuple[float, Event]]]:
    return st.lists(st.tuples(MINUTES, event), max_size=60)


def live(world: World, life: list[tuple[float, Event]]) -> World:
    for wait, (kind, figure) in life:
        world.run(wait * MINUTE)
        world.happen(kind, figure)
    world.endings.clear()
    world.run(3 * DAY)
    return world


def gaps(moments: list[datetime]) -> list[timedelta]:
    return [after - before for before, after in pairwise(moments)]


@examples(150)
@given(weeks(ORDINARY), st.lists(st.sampled_from(["committed", "failed"]), max_size=40), PLACE)
def test_over_weeks_no_note_waits_longer_than_a_day_and_everything_keeps_its_distance(
    life: list[tuple[float, Event]], endings: list[str], place: float
) -> None:
    world = live(World(endings=[*endings], history=replace(NEW, phase=place)), life)
    assert all(gap >= USUAL.pause for gap in gaps(world.did(Action.DREAM)))
    assert all(gap >= USUAL.interval for gap in gaps(world.did(Action.SKIP)))
    assert all(gap >= USUAL.spike_every for gap in gaps(world.spike_passes()))
    arrivals = sum(kind in {"note", "burst", "transcript"} for _, (kind, _) in life)
    assert len(world.did(Action.DREAM)) <= arrivals + endings.count("failed")
    assert not world.notes


@examples(150)
@given(
    life=weeks(st.one_of(ORDINARY, CLOCK)),
    endings=st.lists(st.sampled_from(ENDINGS), max_size=40),
    careful=st.booleans(),
)
def test_whatever_the_clock_does_notes_are_dreamt_and_nothing_loops(
    life: list[tuple[float, Event]], endings: list[str], *, careful: bool
) -> None:
    world = live(World(endings=endings, careful=careful), life)
    jumps = sum(kind == "clock" for _, (kind, _) in life)
    assert sum(gap < USUAL.pause for gap in gaps(world.did(Action.DREAM))) <= jumps
    assert sum(gap < USUAL.interval for gap in gaps(world.did(Action.SKIP))) <= jumps
    assert sum(gap < USUAL.spike_every for gap in gaps(world.spike_passes())) <= jumps
    assert not world.notes


@given(weeks(ORDINARY), st.lists(st.sampled_from(ENDINGS), max_size=40))
def test_no_dream_begins_while_a_ceiling_is_open(life: list[tuple[float, Event]], endings: list[str]) -> None:
    world = World(endings=["ceiling", *endings])
    live(world, life)
    assert world.held_at_dreams == [False] * len(world.did(Action.DREAM))


@given(
    notes=st.integers(1, 40),
    size=st.integers(0, 9000),
    always=st.sampled_from(["stuck", "nothing"]),
    schema=st.booleans(),
)
def test_a_dream_without_new_input_is_not_dreamt_again_before_the_next_interval(
    notes: int, size: int, always: str, *, schema: bool
) -> None:
    world = World(always=always, history=replace(NEW, schema=schema))
    for _ in range(notes):
        world.note(size // notes)
    world.end_session()
    world.run(1.2 * DAY)
    assert world.did(Action.DREAM)
    assert all(gap >= (USUAL.interval if always == "stuck" else USUAL.pause) for gap in gaps(world.did(Action.DREAM)))


def test_what_a_dream_had_to_leave_is_taken_in_soon_by_the_next_ones() -> None:
    world = World(history=replace(NEW, schema=True), most=100)
    world.burst(1_000)
    world.run(0.5 * DAY)
    dreams = world.did(Action.DREAM)
    assert (len(dreams), world.notes) == (10, [])
    assert gaps(dreams) == [USUAL.pause_with_rest] * 9


def test_a_failed_dream_over_much_is_tried_again_as_late_as_any() -> None:
    world = World(history=replace(NEW, schema=True), most=100, endings=["failed", "committed"])
    world.burst(1_000)
    world.run(0.1 * DAY)
    first, second, third, *_ = world.did(Action.DREAM)
    assert (second - first, third - second) == (USUAL.pause_with_rest, USUAL.retry)


def test_a_backlog_of_turns_is_one_dream_in_six_weeks() -> None:
    world = World(history=replace(NEW, schema=True))
    world.transcript(10_000)
    world.run(42 * DAY)
    assert len(world.did(Action.DREAM)) == 1


def test_a_thousand_idle_ticks_are_no_dream_and_one_kind_of_skip() -> None:
    world = World(history=replace(NEW, schema=True))
    world.tick(1000 * TICK)
    assert {(one.action, one.reason, one.detail) for _, one in world.acts} == {
        (Action.SKIP, Reason.INTERVAL, "0 new, 5 wanted")
    }
    assert len(world.acts) == 4


def test_asked_at_every_tick_for_two_weeks_a_note_waits_a_day_and_a_tick() -> None:
    world = World(history=replace(NEW, schema=True))
    for number in range(56):
        world.note()
        waiting = world.notes[0][0]
        world.tick((3 + number // 7) * HOUR)
        begun = world.did(Action.DREAM)
        assert world.real - waiting <= DAY + TICK or begun[-1] - waiting <= DAY + TICK
    reasons = {one.reason for _, one in world.acts if one.action is Action.DREAM}
    assert reasons == {Reason.FLOOR, Reason.INTERVAL, Reason.IDLE}


def test_two_hundred_workspaces_that_wake_together_catch_up_in_twelve_minutes() -> None:
    looks = []
    for number in range(200):
        history = History(awake_since=START, last_look=START - DAY, phase=phase(f"/srv/{number}"))
        looks.append(due(START, history, Pending(new=9), USUAL).at - START)
    assert max(looks) <= USUAL.interval / 10
    assert max(sum(minute * MINUTE <= look < (minute + 1) * MINUTE for look in looks) for minute in range(12)) <= 30


def moments(latest: float) -> st.SearchStrategy[datetime]:
    """Moments around the start, some of them the very same, up to so many minutes after it."""
    near, far = st.floats(-200, min(200, latest)), st.floats(-4000, latest)
    return st.one_of(st.just(0.0), st.sampled_from([-60.0, -120.0, -5.0]), near, far).map(
        lambda minutes: START + minutes * MINUTE
    )


def histories(moment: st.SearchStrategy[datetime], awake: st.SearchStrategy[datetime]) -> st.SearchStrategy[History]:
    some = st.none() | moment
    return st.builds(
        History,
        awake_since=awake,
        last_look=some,
        last_dream=some,
        failures=st.integers(0, 12),
        failed_at=some,
        ceiling_until=st.none() | moments(4000),
        last_pass=some,
        last_spike_pass=some,
        schema=st.booleans(),
        phase=PLACE,
    )


def pendings(moment: st.SearchStrategy[datetime]) -> st.SearchStrategy[Pending]:
    some = st.none() | moment
    level = st.sampled_from([0.0, 0.7, 0.75, 0.85])
    return st.builds(
        Pending,
        notes=st.integers(0, 30),
        characters=st.integers(0, 1000),
        bytes=st.integers(0, 10_000),
        new=st.integers(0, 30),
        left=st.booleans(),
        oldest=some,
        latest=some,
        session_ended=some,
        changed=st.booleans(),
        dopamine=level,
        cortisol=level,
    )


ANY, PAST = moments(4000), moments(0)


@example(History(awake_since=START, last_look=START), Pending(notes=1, new=1, left=True), [])
@examples(500)
@given(histories(ANY, ANY), pendings(ANY), st.lists(st.floats(0, 1, exclude_max=True)))
def test_nothing_fires_before_the_moment_that_was_named(
    history: History, pending: Pending, parts: list[float]
) -> None:
    first = due(START, history, pending, USUAL)
    assert (first.at > START) == (first.action is Action.WAIT)
    for part in sorted([*parts, 0.5, 0.999]):
        earlier = START + part * (first.at - START)
        if earlier < first.at:
            again = due(earlier, history, pending, USUAL)
            assert again.action is Action.WAIT
            assert again.at >= first.at


@examples(500)
@given(histories(PAST, PAST), pendings(PAST))
def test_at_the_moment_that_was_named_what_was_expected_is_due(history: History, pending: Pending) -> None:
    first = due(START, history, pending, USUAL)
    then = due(first.at, history, pending, USUAL)
    assert then.action is not Action.WAIT
    assert then.at == first.at
    assert first.detail
    assert then.detail


@examples(200)
@given(histories(PAST, PAST), pendings(PAST))
def test_the_dream_that_is_foreseen_is_the_next_and_none_comes_unforeseen(history: History, pending: Pending) -> None:
    foreseen = upcoming(START, history, pending, USUAL)
    now, end = START, START + 4 * DAY
    while (one := due(now, history, pending, USUAL)).action is not Action.DREAM and one.at < end:
        now = one.at
        if one.action is Action.SKIP:
            history = replace(history, last_look=now)
        if one.action is Action.PASS:
            history, pending = replace(history, last_pass=now, last_spike_pass=now), replace(pending, changed=False)
    assert (one.action is Action.DREAM) == (foreseen.action is Action.DREAM)
    if foreseen.action is Action.DREAM:
        assert (one.at, one.reason) == (foreseen.at, foreseen.reason)


WILD = st.datetimes(timezones=st.just(UTC))
WAITS = st.timedeltas()
COUNTS = st.integers(-(10**30), 10**30)


@examples(500)
@given(
    WILD,
    histories(WILD, WILD),
    pendings(WILD),
    st.builds(
        Thresholds,
        interval=WAITS,
        min_chunks=COUNTS,
        idle=WAITS,
        floor=WAITS,
        passes_every=WAITS,
        spike_every=WAITS,
        retry=WAITS,
        pause=WAITS,
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    COUNTS,
)
def test_no_input_makes_it_raise(
    now: datetime, history: History, pending: Pending, thresholds: Thresholds, place: float, count: int
) -> None:
    history = replace(history, phase=place, failures=count)
    assert due(now, history, pending, thresholds).action in Action
    assert upcoming(now, history, pending, thresholds).action in {Action.DREAM, Action.WAIT}
