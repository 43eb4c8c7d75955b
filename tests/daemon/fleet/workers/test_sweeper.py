"""Which workspaces are dreamt now: in turn, within the ceilings, and none holds up another."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.settings import Config
from daemon.fleet.workers.decision import Facts, decide, facts_of, facts_text, foreseen
from daemon.fleet.workers.sweeper import Room, Sweeper, _is_paused, _Wanted, chosen
from daemon.service.schedule import Action, Decision, History, Pending, Thresholds
from state.dream import Reason
from state.fleet.tenant import Quotas
from state.fleet.workspace import Place
from state.stores.fleet.schedule import Capacity, DueRow, Job, Schedule, Use, Waiting
from state.stores.fleet.standings import Standings
from tests.daemon.fleet.workers.running import Fleet, run

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DREAM = Decision(Action.DREAM, Reason.INTERVAL, "", NOW)
PAID: dict[str, Any] = {
    "model": {"name": "openai/scripted", "api_base": "http://127.0.0.1:9"},
    "limits": {"usd_per_dream": 0.5, "tokens_per_dream": 1000},
}
MOMENTS = st.datetimes(timezones=st.just(UTC))


def row(tenant: int, number: int, due_at: datetime = NOW, facts: str = "") -> DueRow:
    return DueRow(
        place=Place(number, tenant, f"t{tenant}", f"w{number}"),
        facts=facts,
        queue="",
        queued=False,
        lost=False,
        outage=False,
        failures=0,
        due_at=due_at,
        waiting=Waiting(9),
    )


def capacity(slots: int = 4, busy: int = 0) -> Capacity:
    return Capacity(NOW, slots, busy, tokens=0, usd=0.0)


def test_the_one_of_a_tenant_comes_before_the_thousands_of_another() -> None:
    crowd = [_Wanted(row(1, number, NOW - timedelta(hours=1)), DREAM) for number in range(400)]
    alone = _Wanted(row(2, 999), DREAM)
    jobs, later = chosen([*crowd, alone], Room(capacity(), Config(), {1: Use(Quotas(), 5)}), Counter())
    assert jobs[0].workspace == 999
    assert len(jobs) == 8
    assert len(later) == 393


def test_who_was_lost_with_others_is_suspected_later_and_after_an_outage_never() -> None:
    def paused(failures: int, *, alone: bool, outage: bool = False) -> bool:
        return _is_paused(replace(row(1, 1), lost=True, failures=failures, outage=outage), alone=alone)

    assert [paused(failures, alone=True) for failures in (0, 1, 2, 5)] == [False, False, True, True]
    assert [paused(failures, alone=False) for failures in (1, 2, 4, 5)] == [False, False, False, True]
    assert not paused(9, alone=True, outage=True)


def test_who_waits_alone_is_looked_at_each_second_however_many_others_wait() -> None:
    passed_over: Counter[int] = Counter()
    full = Room(capacity(busy=8), Config(), {})
    for batch in range(20):
        chosen([_Wanted(row(1, batch * 500 + one), DREAM) for one in range(500)], full, passed_over)
    _, [(_, again)] = chosen([_Wanted(row(2, 99_999), DREAM)], full, passed_over)
    assert again == NOW + timedelta(seconds=1)
    _, [(_, last)] = chosen([_Wanted(row(1, 99_998), DREAM)], full, passed_over)
    assert last == NOW + timedelta(minutes=10)


@given(
    st.lists(st.integers(1, 3), max_size=60),
    st.integers(0, 40),
    st.builds(Quotas, dreams_per_day=st.integers(0, 9), usd_per_day=st.floats(0, 5),
              tokens_per_day=st.integers(0, 9000)),
    st.builds(Use, quotas=st.just(Quotas()), busy=st.integers(0, 9), dreams=st.integers(0, 9),
              tokens=st.integers(0, 9000), usd=st.floats(0, 5)),
    st.floats(0, 9),
)  # fmt: skip
def test_no_ceiling_is_exceeded_by_more_than_one_dream(
    tenants: list[int], busy: int, quotas: Quotas, use: Use, fleet_usd: float
) -> None:
    config = Config.model_validate({**PAID, "fleet": {"usd_per_day": fleet_usd}})
    used = replace(use, quotas=quotas)
    room = Room(capacity(slots=50, busy=busy), config, dict.fromkeys((1, 2, 3), used))
    jobs, later = chosen([_Wanted(row(tenant, n), DREAM) for n, tenant in enumerate(tenants)], room, Counter())
    assert len(jobs) + len(later) == len(tenants)
    assert all(at is not None and at > NOW for _, at in later)
    for tenant in (1, 2, 3):
        more = sum(tenants[job.workspace] == tenant for job in jobs)
        if not more:
            continue
        reserved = used.busy + more
        assert not quotas.dreams_per_day or used.dreams + reserved <= quotas.dreams_per_day
        assert not quotas.usd_per_day or used.usd + (reserved - 1) * 0.5 < quotas.usd_per_day
        assert not quotas.tokens_per_day or used.tokens + (reserved - 1) * 1000 < quotas.tokens_per_day
    assert not fleet_usd or not jobs or (busy + len(jobs) - 1) * 0.5 < fleet_usd


@given(
    st.builds(Facts, st.builds(History, awake_since=MOMENTS, last_look=st.none() | MOMENTS,
              last_dream=st.none() | MOMENTS, failures=st.integers(0, 9), failed_at=st.none() | MOMENTS,
              last_pass=st.none() | MOMENTS, schema=st.booleans()),
              st.builds(Pending, notes=st.integers(0, 30), new=st.integers(0, 30), oldest=st.none() | MOMENTS,
              session_ended=st.none() | MOMENTS, changed=st.booleans()),
              st.none() | MOMENTS, st.none() | MOMENTS, st.none() | MOMENTS),
    MOMENTS,
)  # fmt: skip
def test_whatever_clocks_say_something_is_decided_and_waiting_ends_later(facts: Facts, now: datetime) -> None:
    text = facts_text(facts)
    told = facts_of(text, "ws-1", now)
    assert told == facts
    decision = foreseen(told, now, Thresholds())
    assert decision is None or (decision.at > now) == (decision.action is Action.WAIT)
    assert decide(row(1, 1, facts=text), now, Thresholds()) is not None


def test_one_row_that_cannot_be_decided_holds_up_no_other(fleet: Fleet) -> None:
    tenant = fleet.tenant()
    broken, sound = fleet.place(tenant), fleet.place(tenant)
    for place in (broken, sound):
        fleet.note(place, "a note")
        fleet.put(place, "session_end", "{}")
    fleet.database.rows("UPDATE workspaces SET facts = 'nonsense' WHERE id = %(id)s", {"id": broken.id})
    with fleet.worker() as worker:
        Sweeper(worker.database, lambda: worker.config, worker.thresholds, worker.stopping).tick()
        assert fleet.row(broken)["queued_at"] is not None
        assert fleet.row(sound)["queued_at"] is not None


def test_a_dream_by_hand_and_one_that_is_asked_for_keep_to_the_ceilings(fleet: Fleet) -> None:
    from state.errors import QuotaError

    place = fleet.place(fleet.tenant("acme", Quotas(dreams_per_day=1)))
    with fleet.worker() as worker:
        run(worker, place, "working_memory_note", note="Ada prefers tea", importance=0.9)
        assert run(worker, place, "dream_now").outcome is not None
        run(worker, place, "working_memory_note", note="and cake", importance=0.9)
        for wait in (True, False):
            with pytest.raises(QuotaError):
                run(worker, place, "dream_now", wait=wait)


def test_dreams_that_are_asked_for_at_one_moment_keep_to_the_ceilings_together(fleet: Fleet) -> None:
    from state.errors import QuotaError

    tenant = fleet.tenant("acme", Quotas(dreams_per_day=2))
    places = [fleet.place(tenant) for _ in range(6)]
    for place in places:
        fleet.note(place, "Ada prefers tea")
    with fleet.worker(dreams_at_once=6) as worker, ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(run, worker, place, "dream_now") for place in places]
        refused = [isinstance(one.exception(), QuotaError) for one in asked]
        assert refused.count(True) == 4
        assert all(one.result().outcome for one, was in zip(asked, refused, strict=True) if not was)
    assert Standings(fleet.database).use(tenant.id).dreams == 2
    assert fleet.database.rows("SELECT 1 FROM workspaces WHERE asked_at IS NOT NULL") == []


def test_a_dream_asks_postgresql_few_things(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.worker() as worker:
        for number in range(6):
            fleet.note(place, f"invoice {number} was paid")
        before = worker.database.statements
        worker.run_job("dream", place.id, "manual")
        worker.ownership.give_back_idle(0)
        assert worker.database.statements - before <= 6
        assert fleet.row(place)["generation"] == 1


@pytest.mark.full
def test_each_failure_in_a_row_is_counted_and_doubles_the_wait(fleet: Fleet) -> None:
    fleet.settings = {"model": {"name": "nobodys/model"}}
    place = fleet.place()
    with fleet.worker() as worker:
        fleet.note(place, "Ada prefers tea")
        waits = []
        for number in (1, 2):
            Schedule(fleet.database).queue(Job(place.id, "dream", "manual", ""))
            worker.run_job("dream", place.id, "manual")
            row = fleet.row(place)
            assert (row["failures"], row["queued_at"]) == (number, None)
            assert row["problem"]
            waits.append(row["due_at"] - row["committed_at"])
        assert waits[1] > 1.5 * waits[0]
        assert not fleet.waiting(place)
