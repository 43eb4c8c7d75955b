"""The schedule: each trigger from both sides of its threshold, simulated weeks, and what holds for any input."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.engine.schedule import Action, Decision, History, Pending, Thresholds, due, phase, upcoming
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
    assert gaps(dreams) == [USUAL.pause_with_notes_left] * 9


def test_a_failed_dream_over_much_is_tried_again_as_late_as_any() -> None:
    world = World(history=replace(NEW, schema=True), most=100, endings=["failed", "committed"])
    world.burst(1_000)
    world.run(0.1 * DAY)
    first, second, third, *_ = world.did(Action.DREAM)
    assert (second - first, third - second) == (USUAL.pause_with_notes_left, USUAL.retry)


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
        interrupted=st.booleans(),
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


# ------------------------------------------------------------ each trigger, from both sides of its threshold

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SOON = NOON + SECOND  # when what is due a second later fires
DREAM, PASS, SKIP, WAIT = Action.DREAM, Action.PASS, Action.SKIP, Action.WAIT
# What is decided; of a decision its action and reason, or its action alone; or until when it waits.
Expected = Decision | tuple[Action, Reason | None] | Action | datetime


def ago(minutes: float) -> datetime:
    return NOON - timedelta(minutes=minutes)


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def quiet(**changes: Any) -> History:
    """Looked at an hour ago, watched since yesterday."""
    known = History(awake_since=ago(1500), last_look=ago(60), last_dream=ago(180), last_pass=ago(1))
    return replace(known, **changes)


def some(notes: int = 0, **changes: Any) -> Pending:
    """So many short notes, the first of them an hour old, the last a minute."""
    oldest, latest = (ago(60), ago(1)) if notes else (None, None)
    usual = Pending(notes, 50 * notes, 60 * notes, new=notes, oldest=oldest, latest=latest)
    return replace(usual, **changes)


def assert_decided(one: Decision, expected: Expected) -> None:
    if isinstance(expected, datetime):
        assert (one.action, one.at) == (WAIT, expected)
    elif isinstance(expected, Action):
        assert one.action is expected
    elif isinstance(expected, tuple):
        assert (one.action, one.reason) == expected
    else:
        assert one == expected


LONG = quiet(last_look=ago(120), awake_since=ago(20_000))
FRESH = History(awake_since=ago(119), last_pass=ago(1))
MISSED = quiet(last_look=ago(300), awake_since=ago(3))
UNBORN = quiet(schema=False, last_dream=None)
OLD_NOTE = some(1, oldest=ago(1440), latest=ago(1440))
ODD = some(1, oldest=datetime(1970, 1, 1, tzinfo=UTC))
SPIKE = some(dopamine=0.71)
STARTED = quiet(last_pass=None, awake_since=NOON)
RUN_OUT = quiet(last_look=ago(120), last_pass=ago(30))
ENDED = some(session_ended=ago(0.5), changed=True)
HELD = quiet(ceiling_until=after(720), last_look=ago(300))
FULL = some(20, oldest=ago(2000), session_ended=ago(10))
BUSY = some(20, session_ended=NOON, latest=NOON)
AHEAD = some(1, oldest=after(432_000), latest=after(432_000))
CUT_OFF = Pending(interrupted=True)
YEAR = after(525_600)
BEHIND = quiet(
    awake_since=YEAR,
    failures=3,
    failed_at=YEAR,
    ceiling_until=YEAR,
    **dict.fromkeys(("last_look", "last_dream", "last_pass", "last_spike_pass"), YEAR),
)

CASES: list[tuple[str, History, Pending, Expected]] = [
    ("quiet", quiet(), some(), Decision(WAIT, Reason.INTERVAL, "nothing is pending", after(60))),
    ("interval", LONG, some(5), Decision(DREAM, Reason.INTERVAL, "5 new", NOON)),
    ("interval, long past", replace(LONG, last_look=ago(10_000)), some(5), (DREAM, Reason.INTERVAL)),
    (
        "interval, a second early",
        quiet(last_look=ago(120) + SECOND),
        some(5),
        Decision(WAIT, Reason.INTERVAL, "interval", SOON),
    ),
    *(
        (f"not ready, {new}", LONG, some(new), Decision(SKIP, Reason.INTERVAL, f"{new} new, 5 wanted", NOON))
        for new in (0, 1, 4)
    ),
    ("crystals without a note", LONG, some(new=5), (DREAM, Reason.INTERVAL)),
    ("never looked at, early", FRESH, some(5), after(1)),
    ("never looked at", replace(FRESH, awake_since=ago(120)), some(5), (DREAM, Reason.INTERVAL)),
    ("jitter", quiet(last_look=ago(126), phase=0.5), some(5), (DREAM, Reason.INTERVAL)),
    ("jitter, early", quiet(last_look=ago(126) + SECOND, phase=0.5), some(5), SOON),
    ("jitter, at most a tenth", quiet(last_look=ago(132), phase=0.999), some(5), (DREAM, Reason.INTERVAL)),
    ("catch-up", MISSED, some(5), (DREAM, Reason.CATCH_UP)),
    ("catch-up, not ready", MISSED, some(4), Decision(SKIP, Reason.CATCH_UP, "4 new, 5 wanted", NOON)),
    (
        "catch-up, spread",
        replace(MISSED, phase=0.5),
        some(5),
        Decision(WAIT, Reason.CATCH_UP, "catch-up after downtime", after(3)),
    ),
    ("ran out as it woke", quiet(last_look=ago(123) - SECOND, awake_since=ago(3)), some(5), (DREAM, Reason.CATCH_UP)),
    ("ran out awake", quiet(last_look=ago(123), awake_since=ago(3)), some(5), (DREAM, Reason.INTERVAL)),
    ("session end", quiet(), some(1, session_ended=ago(1)), (DREAM, Reason.SESSION_END)),
    ("session end, nothing new", quiet(), some(session_ended=ago(1)), WAIT),
    ("session dreamt of", quiet(last_dream=ago(60)), some(1, session_ended=ago(60)), WAIT),
    ("session not dreamt of", quiet(last_dream=ago(60)), some(1, session_ended=ago(59)), DREAM),
    ("session end, unread", quiet(), ENDED, (PASS, Reason.SESSION_END)),
    ("session end, read once", quiet(last_pass=NOON), ENDED, WAIT),
    ("session end, unread and new", quiet(), replace(ENDED, new=1), (DREAM, Reason.SESSION_END)),
    ("first breath, 5 notes", UNBORN, some(5, characters=5), (DREAM, Reason.FIRST_BREATH)),
    ("first breath, 500 characters", UNBORN, some(1, characters=500), (DREAM, Reason.FIRST_BREATH)),
    ("first breath, too little", UNBORN, some(4, characters=499), WAIT),
    ("first breath, with sections", quiet(last_dream=None), some(5, characters=500), WAIT),
    ("pressure, 20 notes", quiet(), some(20, bytes=400), (DREAM, Reason.PRESSURE)),
    ("pressure, 8 KiB", quiet(), some(1, bytes=8192), (DREAM, Reason.PRESSURE)),
    ("pressure, too little", quiet(), some(19, bytes=8191), WAIT),
    ("floor", quiet(last_dream=ago(2000)), OLD_NOTE, (DREAM, Reason.FLOOR)),
    (
        "floor, a second early",
        quiet(last_dream=ago(2000)),
        replace(OLD_NOTE, oldest=ago(1440) + SECOND),
        Decision(WAIT, Reason.FLOOR, "the oldest note has then waited 24 hours", SOON),
    ),
    (
        "floor, stamp before a dream that failed",
        quiet(last_dream=ago(180), failures=1, failed_at=ago(179)),
        ODD,
        (DREAM, Reason.FLOOR),
    ),
    ("idle", quiet(last_look=ago(25)), some(5, latest=ago(20)), (DREAM, Reason.IDLE)),
    ("idle, a second early", quiet(last_look=ago(25)), some(5, latest=ago(20) + SECOND), SOON),
    ("idle, not ready", quiet(last_look=ago(25)), some(4, latest=ago(20)), WAIT),
    ("idle, without a note", quiet(last_look=ago(25)), some(new=5), WAIT),
    ("spike of dopamine", quiet(), SPIKE, (PASS, Reason.SPIKE)),
    ("spike of cortisol", quiet(), some(cortisol=0.81), (PASS, Reason.SPIKE)),
    ("spike, ten minutes later", quiet(last_spike_pass=ago(10)), SPIKE, (PASS, Reason.SPIKE)),
    ("spike, a second early", quiet(last_spike_pass=ago(10) + SECOND), SPIKE, SOON),
    ("no spike", quiet(), some(dopamine=0.7, cortisol=0.8), WAIT),
    ("pass", quiet(last_pass=ago(5)), some(changed=True), (PASS, None)),
    (
        "pass, a second early",
        quiet(last_pass=ago(5) + SECOND),
        some(changed=True),
        Decision(WAIT, None, "a consolidation pass", SOON),
    ),
    ("pass, nothing changed", quiet(last_pass=ago(3000)), some(), WAIT),
    ("first pass", STARTED, some(changed=True), (PASS, None)),
    ("first pass, spread", replace(STARTED, phase=0.5), some(changed=True), after(6)),
    ("dream before pass", RUN_OUT, some(5, changed=True, dopamine=1.0), DREAM),
    ("pass before skip", RUN_OUT, some(4, changed=True), PASS),
    ("skip", RUN_OUT, some(4), SKIP),
    (
        "nothing new",
        replace(UNBORN, last_look=ago(300)),
        some(50, new=0, oldest=ago(5000), latest=ago(40), session_ended=ago(30)),
        Decision(SKIP, Reason.INTERVAL, "0 new, 5 wanted", NOON),
    ),
    ("failed before a success", quiet(failed_at=ago(1), last_dream=ago(6)), some(20), (DREAM, Reason.PRESSURE)),
    ("few notes failed", quiet(failures=1, failed_at=ago(59)), some(new=4), after(60)),
    (
        "failed, then came to nothing",
        quiet(failures=1, failed_at=ago(59), last_look=NOON, last_dream=ago(60)),
        some(new=5),
        after(5),
    ),
    (
        "ceiling",
        HELD,
        FULL,
        Decision(WAIT, Reason.SESSION_END, "session end, held by a ceiling until 00:00 UTC", after(720)),
    ),
    ("ceiling, passes go on", HELD, replace(FULL, changed=True, dopamine=0.9), PASS),
    ("ceiling, a day ahead", replace(HELD, ceiling_until=after(1440)), some(5), WAIT),
    ("ceiling of another clock", replace(HELD, ceiling_until=after(1440) + SECOND), some(5), DREAM),
    ("five minutes apart", quiet(last_look=ago(5), last_dream=ago(5)), BUSY, (DREAM, Reason.SESSION_END)),
    (
        "not five minutes apart",
        quiet(last_look=ago(5), last_dream=ago(5) + SECOND),
        BUSY,
        Decision(WAIT, Reason.SESSION_END, "session end, after a pause", SOON),
    ),
    *(
        (f"came to nothing, {number}", quiet(last_look=NOON, last_dream=ago(3000)), pending, after(5))
        for number, pending in enumerate((some(20), some(1, session_ended=ago(10)), some(1, oldest=ago(2000))))
    ),
    ("clock set back, ready", BEHIND, some(5), (DREAM, Reason.INTERVAL)),
    ("clock set back, not ready", BEHIND, some(0), (SKIP, Reason.INTERVAL)),
    ("clock set back, changed", BEHIND, some(changed=True), PASS),
    ("clock set back, spike", BEHIND, some(dopamine=0.9), (PASS, Reason.SPIKE)),
    ("clock set back, acted", replace(BEHIND, last_look=NOON), some(0), after(120)),
    ("clock set back, noticed", replace(BEHIND, awake_since=ago(5)), some(0), after(115)),
    ("interrupted", quiet(last_dream=NOON, ceiling_until=after(600)), CUT_OFF, (DREAM, Reason.CATCH_UP)),
    ("interrupted, failed", quiet(failures=1, failed_at=NOON), CUT_OFF, after(5)),
    ("note of the future", quiet(last_dream=None, awake_since=ago(100)), AHEAD, (DREAM, Reason.FLOOR)),
]


@pytest.mark.parametrize(
    ("history", "pending", "expected"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_what_is_done_now(history: History, pending: Pending, expected: Expected) -> None:
    assert_decided(due(NOON, history, pending, USUAL), expected)


@pytest.mark.parametrize(
    ("history", "pending", "at"),
    [
        (quiet(last_dream=ago(180)), ODD, ago(180)),
        (quiet(last_dream=ago(180)), AHEAD, ago(180)),
        # Local time, said to be UTC.
        (quiet(last_dream=None, awake_since=ago(100)), some(1, oldest=after(120)), ago(100)),
    ],
)
def test_a_note_with_a_wrong_stamp_waits_a_day_at_most(history: History, pending: Pending, at: datetime) -> None:
    foreseen = upcoming(NOON, history, pending, USUAL)
    assert (foreseen.action, foreseen.at) == (DREAM, at + timedelta(hours=24))


def test_of_several_reasons_the_first_in_the_order_is_named() -> None:
    history, pending = replace(UNBORN, last_look=ago(300), awake_since=ago(3)), some(20)
    pending = replace(pending, oldest=ago(1500), latest=ago(30), session_ended=ago(30))
    found = [due(NOON, history, pending, USUAL).reason]
    changes: list[tuple[str, Any]] = [
        ("session_ended", None),
        ("schema", True),
        ("oldest", ago(60)),
        ("notes", 19),
        ("awake_since", ago(1500)),
        ("last_look", ago(60)),
    ]
    for name, value in changes:
        if hasattr(history, name):
            history = replace(history, **{name: value})
        else:
            pending = replace(pending, **{name: value})
        found.append(due(NOON, history, pending, USUAL).reason)
    order = "SESSION_END FIRST_BREATH FLOOR PRESSURE CATCH_UP INTERVAL IDLE"
    assert found == [Reason[name] for name in order.split()]


@pytest.mark.parametrize(
    ("failures", "minutes"), [(1, 5), (2, 10), (3, 20), (5, 80), (6, 120), (7, 120), (10**9, 120)]
)
def test_a_failed_dream_is_tried_again_after_five_minutes_doubled_for_each_failure(
    failures: int, minutes: float
) -> None:
    for pending in (some(20), some(new=5), some(1, oldest=ago(2000)), some(1, session_ended=ago(130))):
        failed = quiet(failures=failures, failed_at=ago(minutes), last_look=ago(119), last_dream=ago(119))
        assert_decided(due(NOON, failed, pending, USUAL), DREAM)
        waiting = due(NOON, replace(failed, failed_at=ago(minutes) + SECOND), pending, USUAL)
        assert_decided(waiting, SOON)
        assert waiting.detail.endswith(", after a failed try")


def test_other_thresholds_hold_as_well() -> None:
    brief = replace(USUAL, interval=timedelta(minutes=1))  # neither pause nor backoff is longer than the interval
    assert_decided(due(NOON, quiet(last_look=ago(1), last_dream=ago(1)), some(20), brief), DREAM)
    failed = quiet(last_look=ago(9), failures=3, failed_at=ago(1))
    assert_decided(due(NOON, failed, some(20), brief), DREAM)
    week = timedelta(days=7)
    patient = replace(USUAL, interval=week, min_chunks=1000, pressure_notes=1000, idle=week)
    assert_decided(due(NOON, quiet(last_dream=ago(2000)), OLD_NOTE, patient), (DREAM, Reason.FLOOR))
    none = timedelta(0)
    nought = Thresholds(none, 0, none, 0, 0, none, 0, 0, none, none, 0, 0, none, none)
    full = some(20, session_ended=ago(3), changed=True, dopamine=1.0)
    acted = quiet(last_look=NOON, last_dream=NOON, last_pass=NOON, last_spike_pass=NOON)
    for history in (acted, replace(acted, failures=1, failed_at=NOON), replace(acted, last_dream=None)):
        for pending in (full, replace(full, new=0), replace(full, session_ended=None)):
            assert_decided(due(NOON, history, pending, nought), SOON)  # nothing follows itself at the same moment


@pytest.mark.parametrize(
    ("history", "pending", "told"),
    [
        (quiet(), some(new=2), "interval, if 3 more notes come"),
        (quiet(), some(new=4), "interval, if 1 more note comes"),
        (quiet(), some(2), "the oldest note has then waited 24 hours"),
        (quiet(), some(5), "idle: nothing has then been appended for 20 minutes"),
        (quiet(), some(23), "much waits: 23 notes, 1380 bytes"),
        (quiet(schema=False), some(6), "the first dream: 6 notes, 300 characters"),
        (quiet(schema=False, last_look=ago(300)), some(50, new=0), "nothing is pending"),
    ],
)
def test_what_a_person_is_told_of_the_next_dream(history: History, pending: Pending, told: str) -> None:
    assert upcoming(NOON, history, pending, USUAL).detail == told


def test_the_place_in_the_jitter_is_the_workspaces_own() -> None:
    assert phase("/home/someone/project 7") == phase("/home/someone/project 7")
    assert phase("/home/\udcff") != phase("/home/\udcfe")
