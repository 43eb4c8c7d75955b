"""Which dreams are admitted, what is foreseen, what a job does and costs, and what is forgotten."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.settings import Config
from daemon.engine.schedule import Action, History, Pending, Thresholds, work
from daemon.fleet.jobs import refusal
from daemon.fleet.upkeep.removal import delete_late
from state.errors import QuotaError, UnreachableError
from state.fleet import Quotas
from state.stores.fleet.schedule import Use
from state.stores.generations.generations import Generations
from tests.daemon.fleet.running import Fleet, Here
from tests.support.folders import files_below
from tests.support.generation_folders import held_in

PAID: dict[str, Any] = {
    "model": {"name": "openai/scripted", "api_base": "http://127.0.0.1:9"},
    "limits": {"usd_per_dream": 0.5, "tokens_per_dream": 1000},
}
MOMENTS = st.datetimes(timezones=st.just(UTC))
WORD = "Zanzibarquartz"
TEXT = f"Ada spent the summer in {WORD}"


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
              session_ended=st.none() | MOMENTS, interrupted=st.booleans(), changed=st.booleans()),
)  # fmt: skip
def test_whatever_clocks_say_waiting_ends_later(now: datetime, history: History, pending: Pending) -> None:
    decision = work(now, history, pending, Thresholds())
    assert decision is None or (decision.at > now) == (decision.action is Action.WAIT)
    assert decision is not None or not pending.interrupted


def test_dreams_that_are_asked_for_keep_to_the_ceilings_together(fleet: Fleet) -> None:
    tenant = fleet.tenant("acme", Quotas(dreams_per_day=2))
    places = [fleet.place(tenant) for _ in range(6)]
    for place in places:
        fleet.note(place, "Ada prefers tea")
    with fleet.here(dreams_at_once=6) as door:
        with ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(door.run, place, "dream_now") for place in places]
            refused = [isinstance(one.exception(), QuotaError) for one in asked]
        assert refused.count(True) == 4
        assert all(one.result().outcome for one, was in zip(asked, refused, strict=True) if not was)
        assert fleet.places.use(tenant.id).dreams == 2
        assert fleet.database.rows("SELECT 1 FROM workspaces WHERE dreaming_at IS NOT NULL") == []
        with pytest.raises(QuotaError):
            door.run(places[0], "dream_now", wait=False)


def test_a_dream_asks_postgresql_few_things(fleet: Fleet, door: Here) -> None:
    place = fleet.place()
    for number in range(6):
        fleet.note(place, f"invoice {number} was paid")
    before = door.process.database.statements
    door.process.jobs.run(place.id, "manual")
    door.give_back()
    assert door.process.database.statements - before <= 9
    assert fleet.row(place)["generation"] == 1


def test_a_fleet_that_asks_about_everything_dreams_by_its_schedule_and_asks(fleet: Fleet) -> None:
    fleet.settings = {"dream": {"ask": "all", "min_chunks": 1}}
    place = fleet.place()
    fleet.note(place, TEXT)
    fleet.put(place, kind="session_end")
    with fleet.here() as door:
        assert fleet.schedule.queue_due(10) == 1
        door.process.jobs.run(place.id)
        row = fleet.row(place)
        assert (row["failures"], row["problem"], fleet.waiting(place)) == (0, "", 0)
        (proposed,) = door.run(place, "proposals").proposals
        assert TEXT in str(proposed)


@pytest.mark.full
def test_each_failure_in_a_row_is_counted_and_doubles_the_wait(fleet: Fleet) -> None:
    fleet.settings = {"model": {"name": "nobodys/model"}}
    place = fleet.place()
    with fleet.here() as door:
        fleet.note(place, "Ada prefers tea")
        waits = []
        for number in (1, 2):
            fleet.schedule.queue(place.id, "manual")
            door.process.jobs.run(place.id, "manual")
            row = fleet.row(place)
            assert (row["failures"], row["queued_at"]) == (number, None)
            assert row["problem"]
            waits.append(row["due_at"] - row["committed_at"])
        assert waits[1] > 1.5 * waits[0]
        assert not fleet.waiting(place)


# ------------------------------------------------------------------- forgetting


def _kept(folder: Path) -> list[Path]:
    return [path for path in files_below(folder) if WORD.encode() in held_in(path)]


def test_after_forgetting_no_object_and_no_copy_holds_it(fleet: Fleet, door: Here) -> None:
    place = fleet.place()
    for text in (TEXT, "Ada prefers tea"):
        door.run(place, "working_memory_note", note=text, importance=0.9)
    door.give_back()
    with fleet.here() as second:
        second.run(place, "working_memory_note", note="and cake", importance=0.9)
        assert fleet.holds(WORD)
        second.run(place, "forget", text=TEXT, confirm=True)
        assert fleet.holds(WORD) == []
    assert sorted(fleet.crystals(place)) == ["Ada prefers tea", "and cake"]
    assert _kept(fleet.folder) == []


def test_what_was_forgotten_is_deleted_again_for_whoever_dies_or_does_not_know(
    fleet: Fleet, door: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, objects = fleet.place(), door.process.objects
    for text in (TEXT, "Ada prefers tea"):
        door.run(place, "working_memory_note", note=text, importance=0.9)
    late = {one.key: objects.get(one.key) for one in objects.list(place.prefix)}

    def die(*_: object, **__: object) -> None:
        raise UnreachableError("the store is away", "try again")

    def later(seconds: float) -> None:
        """Finish what is due after so many seconds."""
        fleet.database.rows(
            "UPDATE erased SET at = at - %(by)s::interval, due_at = due_at - %(by)s::interval",
            {"by": timedelta(seconds=seconds)},
        )
        delete_late(fleet.database, objects)

    with monkeypatch.context() as patch:
        patch.setattr(Generations, "sweep", die)
        with pytest.raises(UnreachableError):
            door.run(place, "forget", text=TEXT, confirm=True)
    door.run(place, "working_memory_note", note="and cake", importance=0.9)
    for seconds, is_left in ((0, True), (31, False), (0, True), (32, False), (86_400, False)):
        if is_left:  # a displaced holder wakes up
            for key, content in late.items():
                objects.put(key, content)
        later(seconds)
        assert bool(fleet.holds(WORD)) == is_left
    assert fleet.database.rows("SELECT 1 FROM erased") == []
    assert sorted(fleet.crystals(place)) == ["Ada prefers tea", "and cake"]
