"""Which dreams are admitted, what is foreseen, and what a job does and costs."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.settings import Config
from daemon.fleet.workers.decision import foreseen, refusal
from daemon.service.schedule import Action, History, Pending, Thresholds
from state.fleet.tenant import Quotas
from state.stores.fleet.schedule import Schedule, Use
from state.stores.fleet.standings import Standings
from tests.daemon.fleet.workers.running import Fleet, run

PAID: dict[str, Any] = {
    "model": {"name": "openai/scripted", "api_base": "http://127.0.0.1:9"},
    "limits": {"usd_per_dream": 0.5, "tokens_per_dream": 1000},
}
MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(
    st.builds(Quotas, dreams_per_day=st.integers(0, 9), usd_per_day=st.floats(0, 5),
              tokens_per_day=st.integers(0, 9000)),
    st.builds(Use, dreaming=st.integers(0, 9), dreams=st.integers(0, 9), tokens=st.integers(0, 9000),
              usd=st.floats(0, 5)),
    st.floats(0, 9),
)  # fmt: skip
def test_no_ceiling_is_exceeded_by_more_than_one_dream(quotas: Quotas, use: Use, fleet_usd: float) -> None:
    config = Config.model_validate({**PAID, "fleet": {"usd_per_day": fleet_usd}})
    if refusal(config, quotas, use, use):
        return
    assert not quotas.dreams_per_day or use.dreams + use.dreaming < quotas.dreams_per_day
    for most in (quotas.usd_per_day, fleet_usd):
        assert not most or use.usd + use.dreaming * 0.5 < most
    assert not quotas.tokens_per_day or use.tokens + use.dreaming * 1000 < quotas.tokens_per_day


@given(
    MOMENTS,
    st.builds(History, awake_since=MOMENTS, last_look=st.none() | MOMENTS, last_dream=st.none() | MOMENTS,
              failures=st.integers(0, 9), failed_at=st.none() | MOMENTS, last_pass=st.none() | MOMENTS,
              schema=st.booleans()),
    st.builds(Pending, notes=st.integers(0, 30), new=st.integers(0, 30), oldest=st.none() | MOMENTS,
              session_ended=st.none() | MOMENTS, changed=st.booleans()),
    st.booleans(), st.none() | MOMENTS, st.none() | MOMENTS,
)  # fmt: skip
def test_whatever_clocks_say_waiting_ends_later(
    now: datetime,
    history: History,
    pending: Pending,
    interrupted: bool,  # noqa: FBT001
    sessions_due: datetime | None,
    erased_at: datetime | None,
) -> None:
    decision = foreseen(
        now,
        history,
        pending,
        Thresholds(),
        interrupted=interrupted,
        sessions_due=sessions_due,
        erased_at=erased_at,
    )
    assert decision is None or (decision.at > now) == (decision.action is Action.WAIT)
    assert decision is not None or not (interrupted or sessions_due or erased_at)


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
    assert fleet.database.rows("SELECT 1 FROM workspaces WHERE dreaming_at IS NOT NULL") == []


def test_a_dream_asks_postgresql_few_things(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.worker() as worker:
        for number in range(6):
            fleet.note(place, f"invoice {number} was paid")
        before = worker.database.statements
        worker.run_job(place.id, "manual")
        worker.ownership.give_back_idle(0)
        assert worker.database.statements - before <= 8
        assert fleet.row(place)["generation"] == 1


@pytest.mark.full
def test_each_failure_in_a_row_is_counted_and_doubles_the_wait(fleet: Fleet) -> None:
    fleet.settings = {"model": {"name": "nobodys/model"}}
    place = fleet.place()
    with fleet.worker() as worker:
        fleet.note(place, "Ada prefers tea")
        waits = []
        for number in (1, 2):
            Schedule(fleet.database).queue(place.id, "manual")
            worker.run_job(place.id, "manual")
            row = fleet.row(place)
            assert (row["failures"], row["queued_at"]) == (number, None)
            assert row["problem"]
            waits.append(row["due_at"] - row["committed_at"])
        assert waits[1] > 1.5 * waits[0]
        assert not fleet.waiting(place)
