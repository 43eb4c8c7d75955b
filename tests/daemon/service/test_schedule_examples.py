"""Each trigger from both sides of its threshold, what holds it back, and what a person is told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daemon.service.schedule import Action, Decision, History, Pending, Thresholds, due, phase, upcoming
from state.dream import Reason

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
USUAL = Thresholds()


def ago(minutes: float) -> datetime:
    return NOON - timedelta(minutes=minutes)


def quiet(**changes: Any) -> History:
    """Looked at an hour ago, watched since yesterday."""
    known = History(awake_since=ago(1500), last_look=ago(60), last_dream=ago(180), last_pass=ago(1))
    return replace(known, **changes)


def some(notes: int = 0, **changes: Any) -> Pending:
    """So many short notes, the first of them an hour old, the last a minute."""
    oldest, latest = (ago(60), ago(1)) if notes else (None, None)
    usual = Pending(notes, 50 * notes, 60 * notes, new=notes, oldest=oldest, latest=latest)
    return replace(usual, **changes)


def now(history: History, pending: Pending, thresholds: Thresholds = USUAL) -> Decision:
    return due(NOON, history, pending, thresholds)


def fires(history: History, pending: Pending) -> tuple[Action, Reason | None]:
    one = now(history, pending)
    return one.action, one.reason


def opens(history: History, pending: Pending) -> datetime:
    """When the next dream comes, if nothing changes."""
    one = upcoming(NOON, history, pending, USUAL)
    assert one.action is Action.DREAM
    return one.at


WAIT = Action.WAIT


def test_nothing_is_due_in_a_quiet_workspace() -> None:
    assert now(quiet(), some()) == Decision(WAIT, Reason.INTERVAL, "nothing is pending", NOON + timedelta(minutes=60))


@pytest.mark.parametrize("minutes", [120, 120.5, 10_000])
def test_the_interval_runs_out_and_five_new_ones_are_dreamt(minutes: float) -> None:
    history = quiet(last_look=ago(minutes), awake_since=ago(20_000))
    assert now(history, some(5)) == Decision(Action.DREAM, Reason.INTERVAL, "5 new", NOON)


def test_a_second_before_the_interval_runs_out_it_waits() -> None:
    history = quiet(last_look=ago(120) + SECOND)
    assert now(history, some(5)) == Decision(WAIT, Reason.INTERVAL, "interval", NOON + SECOND)


@pytest.mark.parametrize(("new", "detail"), [(0, "0 new, 5 wanted"), (1, "1 new, 5 wanted"), (4, "4 new, 5 wanted")])
def test_what_is_not_ready_when_the_interval_runs_out_is_skipped_with_its_figures(new: int, detail: str) -> None:
    assert now(quiet(last_look=ago(120)), some(new)) == Decision(Action.SKIP, Reason.INTERVAL, detail, NOON)


def test_crystals_without_a_note_make_a_workspace_ready_as_well() -> None:
    assert fires(quiet(last_look=ago(120)), some(new=5)) == (Action.DREAM, Reason.INTERVAL)


def test_a_workspace_that_was_never_looked_at_has_its_interval_from_the_start_of_the_daemon() -> None:
    fresh = History(awake_since=ago(119), last_pass=ago(1))
    assert now(fresh, some(5)).at == NOON + timedelta(minutes=1)
    assert fires(replace(fresh, awake_since=ago(120)), some(5)) == (Action.DREAM, Reason.INTERVAL)


def test_the_jitter_is_at_most_a_tenth_of_the_interval() -> None:
    late = quiet(last_look=ago(126), phase=0.5)
    assert fires(late, some(5)) == (Action.DREAM, Reason.INTERVAL)
    assert now(replace(late, last_look=ago(126) + SECOND), some(5)).at == NOON + SECOND
    assert fires(quiet(last_look=ago(132), phase=0.999), some(5)) == (Action.DREAM, Reason.INTERVAL)


def test_an_interval_that_ran_out_while_nobody_watched_is_caught_up_spread_by_the_jitter() -> None:
    missed = quiet(last_look=ago(300), awake_since=ago(3))
    assert fires(missed, some(5)) == (Action.DREAM, Reason.CATCH_UP)
    assert now(missed, some(4)) == Decision(Action.SKIP, Reason.CATCH_UP, "4 new, 5 wanted", NOON)
    spread = replace(missed, phase=0.5)
    assert now(spread, some(5)) == Decision(
        WAIT, Reason.CATCH_UP, "catch-up after downtime", NOON + timedelta(minutes=3)
    )
    assert fires(quiet(last_look=ago(123), awake_since=ago(3)), some(5)) == (Action.DREAM, Reason.INTERVAL)
    assert fires(quiet(last_look=ago(123) - SECOND, awake_since=ago(3)), some(5)) == (Action.DREAM, Reason.CATCH_UP)


def test_one_new_note_is_enough_at_the_end_of_a_session() -> None:
    assert fires(quiet(), some(1, session_ended=ago(1))) == (Action.DREAM, Reason.SESSION_END)
    assert fires(quiet(), some(session_ended=ago(1)))[0] is WAIT


def test_a_session_that_ended_before_the_last_dream_began_is_over() -> None:
    assert fires(quiet(last_dream=ago(60)), some(1, session_ended=ago(60)))[0] is WAIT
    assert fires(quiet(last_dream=ago(60)), some(1, session_ended=ago(59)))[0] is Action.DREAM


def test_a_session_that_ended_with_its_words_unread_is_read_first_and_once() -> None:
    ended = some(session_ended=ago(0.5), changed=True)
    assert fires(quiet(), ended) == (Action.PASS, Reason.SESSION_END)
    assert fires(quiet(last_pass=NOON), ended)[0] is WAIT
    assert fires(quiet(), replace(ended, new=1)) == (Action.DREAM, Reason.SESSION_END)


@pytest.mark.parametrize(("notes", "characters", "fired"), [(5, 5, True), (4, 499, False), (1, 500, True)])
def test_first_breath_comes_with_five_notes_or_five_hundred_characters(
    notes: int, characters: int, *, fired: bool
) -> None:
    pending = some(notes, characters=characters)
    expected = (Action.DREAM, Reason.FIRST_BREATH)
    assert (fires(quiet(schema=False, last_dream=None), pending) == expected) is fired
    assert fires(quiet(last_dream=None), pending)[0] is WAIT


@pytest.mark.parametrize(
    ("notes", "size", "fired"),
    [(20, 400, True), (19, 8191, False), (19, 8192, True), (1, 8192, True), (1, 8191, False)],
)
def test_pressure_is_twenty_notes_or_eight_kibibytes(notes: int, size: int, *, fired: bool) -> None:
    assert (fires(quiet(), some(notes, bytes=size)) == (Action.DREAM, Reason.PRESSURE)) is fired


def test_a_note_is_dreamt_when_it_has_waited_for_24_hours_however_few_there_are() -> None:
    waits = some(1, oldest=ago(1440), latest=ago(1440))
    history = quiet(last_dream=ago(2000))
    assert fires(history, waits) == (Action.DREAM, Reason.FLOOR)
    soon = now(history, replace(waits, oldest=ago(1440) + SECOND))
    assert soon == Decision(WAIT, Reason.FLOOR, "the floor: the oldest note has then waited 24 hours", NOON + SECOND)
    patient = replace(USUAL, interval=timedelta(days=7), min_chunks=1000, pressure_notes=1000, idle=timedelta(days=7))
    assert now(history, waits, patient).reason is Reason.FLOOR


def test_a_note_with_a_stamp_from_before_the_last_dream_waits_since_that_dream() -> None:
    odd = some(1, oldest=datetime(1970, 1, 1, tzinfo=UTC))
    assert opens(quiet(last_dream=ago(180)), odd) == ago(180) + timedelta(hours=24)
    assert fires(quiet(last_dream=ago(180), failures=1, failed_at=ago(179)), odd) == (Action.DREAM, Reason.FLOOR)


def test_idle_is_twenty_minutes_without_a_note_when_five_are_new() -> None:
    history = quiet(last_look=ago(25))
    assert fires(history, some(5, latest=ago(20))) == (Action.DREAM, Reason.IDLE)
    assert now(history, some(5, latest=ago(20) + SECOND)).at == NOON + SECOND
    assert fires(history, some(4, latest=ago(20)))[0] is WAIT
    assert fires(history, some(new=5))[0] is WAIT


@pytest.mark.parametrize("levels", [{"dopamine": 0.71}, {"cortisol": 0.81}, {"dopamine": 1.0, "cortisol": 1.0}])
def test_a_spike_is_a_pass_and_at_most_one_in_ten_minutes(levels: dict[str, Any]) -> None:
    spike = replace(some(), **levels)
    assert fires(quiet(), spike) == (Action.PASS, Reason.SPIKE)
    assert fires(quiet(last_spike_pass=ago(10)), spike) == (Action.PASS, Reason.SPIKE)
    assert now(quiet(last_spike_pass=ago(10) + SECOND), spike).at == NOON + SECOND


@pytest.mark.parametrize("levels", [{"dopamine": 0.7}, {"cortisol": 0.8}])
def test_a_level_at_its_line_is_no_spike(levels: dict[str, Any]) -> None:
    assert fires(quiet(), replace(some(), **levels))[0] is WAIT


def test_a_pass_comes_every_five_minutes_when_something_changed() -> None:
    changed = some(changed=True)
    assert fires(quiet(last_pass=ago(5)), changed) == (Action.PASS, None)
    assert now(quiet(last_pass=ago(5) + SECOND), changed) == Decision(
        WAIT, None, "a consolidation pass", NOON + SECOND
    )
    assert fires(quiet(last_pass=ago(3000)), some())[0] is WAIT


def test_the_first_pass_comes_soon_after_a_start_spread_by_the_jitter() -> None:
    fresh = quiet(last_pass=None, awake_since=NOON)
    assert fires(fresh, some(changed=True)) == (Action.PASS, None)
    assert now(replace(fresh, phase=0.5), some(changed=True)).at == NOON + timedelta(minutes=6)


def test_a_dream_comes_before_a_pass_and_a_pass_before_a_skip() -> None:
    run_out = quiet(last_look=ago(120), last_pass=ago(30))
    assert fires(run_out, some(5, changed=True, dopamine=1.0))[0] is Action.DREAM
    assert fires(run_out, some(4, changed=True))[0] is Action.PASS
    assert fires(run_out, some(4))[0] is Action.SKIP


def test_of_several_reasons_the_first_in_the_order_is_named() -> None:
    history = quiet(schema=False, last_look=ago(300), last_dream=None, awake_since=ago(3))
    everything = some(20, oldest=ago(1500), latest=ago(30), session_ended=ago(30))
    found = [fires(history, everything)[1]]
    found.append(fires(history, replace(everything, session_ended=None))[1])
    history = replace(history, schema=True)
    found.append(fires(history, replace(everything, session_ended=None))[1])
    everything = replace(everything, session_ended=None, oldest=ago(60))
    found.append(fires(history, everything)[1])
    everything = replace(everything, notes=19)
    found.append(fires(history, everything)[1])
    found.append(fires(replace(history, awake_since=ago(1500)), everything)[1])
    found.append(fires(replace(history, last_look=ago(60)), everything)[1])
    assert found == [
        Reason.SESSION_END,
        Reason.FIRST_BREATH,
        Reason.FLOOR,
        Reason.PRESSURE,
        Reason.CATCH_UP,
        Reason.INTERVAL,
        Reason.IDLE,
    ]


def test_with_nothing_new_nothing_dreams() -> None:
    history = quiet(schema=False, last_look=ago(300), last_dream=None)
    full = some(50, new=0, oldest=ago(5000), latest=ago(40), session_ended=ago(30))
    assert now(history, full) == Decision(Action.SKIP, Reason.INTERVAL, "0 new, 5 wanted", NOON)
    assert upcoming(NOON, history, full, USUAL).detail == "nothing is pending"


@pytest.mark.parametrize(
    ("failures", "minutes"), [(1, 5), (2, 10), (3, 20), (5, 80), (6, 120), (7, 120), (10**9, 120)]
)
def test_a_failed_dream_is_tried_again_after_five_minutes_doubled_for_each_failure(
    failures: int, minutes: float
) -> None:
    for pending in (some(20), some(new=5), some(1, oldest=ago(2000)), some(1, session_ended=ago(130))):
        failed = quiet(failures=failures, failed_at=ago(minutes), last_look=ago(119), last_dream=ago(119))
        assert now(failed, pending).action is Action.DREAM
        waiting = now(replace(failed, failed_at=ago(minutes) + SECOND), pending)
        assert (waiting.action, waiting.at) == (WAIT, NOON + SECOND)
        assert waiting.detail.endswith(", after a failed try")


def test_a_failure_before_a_success_holds_nothing() -> None:
    assert fires(quiet(failed_at=ago(1), last_dream=ago(6)), some(20)) == (Action.DREAM, Reason.PRESSURE)


def test_what_few_notes_failed_at_is_not_skipped_early() -> None:
    failed = quiet(failures=1, failed_at=ago(59))
    assert now(failed, some(new=4)).at == NOON + timedelta(minutes=60)


def test_a_failed_dream_that_came_to_nothing_is_not_tried_again_at_once() -> None:
    failed = quiet(failures=1, failed_at=ago(59), last_look=NOON, last_dream=ago(60))
    assert now(failed, some(new=5)).at == NOON + timedelta(minutes=5)


def test_an_open_ceiling_holds_every_dream_until_it_closes_and_no_pass() -> None:
    midnight = NOON + timedelta(hours=12)
    held = quiet(ceiling_until=midnight, last_look=ago(300))
    full = some(20, oldest=ago(2000), session_ended=ago(10))
    assert now(held, full) == Decision(
        WAIT, Reason.SESSION_END, "session end, held by a ceiling until 00:00 UTC", midnight
    )
    assert due(midnight, held, full, USUAL).action is Action.DREAM
    assert now(held, replace(full, changed=True, dopamine=0.9)).action is Action.PASS


def test_a_ceiling_that_another_clock_set_more_than_a_day_ahead_holds_nothing() -> None:
    held = quiet(ceiling_until=NOON + timedelta(days=1), last_look=ago(300))
    assert fires(held, some(5))[0] is WAIT
    assert fires(replace(held, ceiling_until=NOON + timedelta(days=1) + SECOND), some(5))[0] is Action.DREAM


def test_dreams_begin_five_minutes_apart() -> None:
    pending = some(20, session_ended=NOON, latest=NOON)
    assert fires(quiet(last_look=ago(5), last_dream=ago(5)), pending) == (Action.DREAM, Reason.SESSION_END)
    early = now(quiet(last_look=ago(5), last_dream=ago(5) + SECOND), pending)
    assert early == Decision(WAIT, Reason.SESSION_END, "session end, after a pause", NOON + SECOND)


def test_neither_pause_nor_backoff_is_longer_than_the_interval() -> None:
    brief = replace(USUAL, interval=timedelta(minutes=1))
    assert now(quiet(last_look=ago(1), last_dream=ago(1)), some(20), brief).action is Action.DREAM
    assert now(quiet(last_look=ago(9), failures=3, failed_at=ago(1)), some(20), brief).action is Action.DREAM


def test_with_figures_of_nought_nothing_follows_itself_at_the_same_moment() -> None:
    none = timedelta(0)
    nought = Thresholds(none, 0, none, 0, 0, none, 0, 0, none, none, 0, 0, none, none)
    full = some(20, session_ended=ago(3), changed=True, dopamine=1.0)
    acted = quiet(last_look=NOON, last_dream=NOON, last_pass=NOON, last_spike_pass=NOON)
    for history in (acted, replace(acted, failures=1, failed_at=NOON), replace(acted, last_dream=None)):
        for pending in (full, replace(full, new=0), replace(full, session_ended=None)):
            assert now(history, pending, nought).at == NOON + SECOND


def test_a_dream_that_came_to_nothing_is_not_asked_for_again_at_once() -> None:
    for pending in (some(20), some(1, session_ended=ago(10)), some(1, oldest=ago(2000))):
        assert now(quiet(last_look=NOON, last_dream=ago(3000)), pending).at == NOON + timedelta(minutes=5)


def test_what_a_person_is_told_of_the_next_dream() -> None:
    def told(history: History, pending: Pending) -> str:
        return upcoming(NOON, history, pending, USUAL).detail

    assert told(quiet(), some(new=2)) == "interval, if 3 more notes come"
    assert told(quiet(), some(new=4)) == "interval, if 1 more note comes"
    assert told(quiet(), some(2)) == "the floor: the oldest note has then waited 24 hours"
    assert told(quiet(), some(5)) == "idle: nothing has then been appended for 20 minutes"
    assert told(quiet(), some(23)) == "pressure: 23 notes, 1380 bytes"
    assert told(quiet(schema=False), some(6)) == "first breath: 6 notes, 300 characters"
    assert now(quiet(), some(2)).detail == "interval, if 3 more notes come"


def test_a_clock_set_back_by_a_year_makes_one_early_look_at_most() -> None:
    later = NOON + timedelta(days=365)
    stamps = {"last_look": later, "last_dream": later, "last_pass": later, "last_spike_pass": later}
    behind = quiet(awake_since=later, failures=3, failed_at=later, ceiling_until=later, **stamps)
    assert fires(behind, some(5)) == (Action.DREAM, Reason.INTERVAL)
    assert fires(behind, some(0)) == (Action.SKIP, Reason.INTERVAL)
    assert fires(behind, some(changed=True))[0] is Action.PASS
    assert fires(behind, some(dopamine=0.9)) == (Action.PASS, Reason.SPIKE)
    acted = replace(behind, last_look=NOON)
    assert now(acted, some(0)).at == NOON + timedelta(minutes=120)
    noticed = replace(behind, awake_since=ago(5))
    assert now(noticed, some(0)).at == NOON + timedelta(minutes=115)


def test_a_note_from_the_future_waits_a_day_from_the_last_dream_at_most() -> None:
    ahead = some(1, oldest=NOON + timedelta(days=300), latest=NOON + timedelta(days=300))
    assert opens(quiet(last_dream=ago(180)), ahead) == ago(180) + timedelta(hours=24)
    assert fires(quiet(last_dream=None, awake_since=ago(100)), ahead) == (Action.DREAM, Reason.FLOOR)
    zone = some(1, oldest=NOON + timedelta(hours=2))  # local time, said to be UTC
    assert opens(quiet(last_dream=None, awake_since=ago(100)), zone) == ago(100) + timedelta(hours=24)


def test_the_night_of_summer_time_has_the_length_of_any_other() -> None:
    look = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    history = quiet(awake_since=NOON, last_look=look)
    assert due(look + timedelta(minutes=120) - SECOND, history, some(new=5), USUAL).action is WAIT
    assert due(look + timedelta(minutes=120), history, some(new=5), USUAL).reason is Reason.INTERVAL


def test_the_place_in_the_jitter_is_the_workspaces_own_and_two_hundred_are_spread() -> None:
    places = sorted(phase(f"/home/someone/project {number}") for number in range(200))
    assert phase("/home/someone/project 7") == phase("/home/someone/project 7")
    assert phase("/home/\udcff") != phase("/home/\udcfe")
    assert 0 <= places[0] < places[-1] < 1
    for tenth in range(10):
        assert 8 <= sum(tenth / 10 <= place < (tenth + 1) / 10 for place in places) <= 36
