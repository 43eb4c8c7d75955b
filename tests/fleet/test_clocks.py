"""A machine whose clock is on another day: notes become crystals, and days and times are PostgreSQL's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.fleet import Quotas
from tests.fleet.machines import Fleet, Known
from tests.support import forked, lived
from tests.support.serving import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

# With these settings a dream comes two seconds after its notes; the rest is for a busy machine.
_USUAL_SECONDS = 30.0
# A dream was due, and its tenant may have no more of them today.
_PUT_OFF = "SELECT id FROM workspaces WHERE queued_at IS NULL AND due_at > clock_timestamp() + interval '5 minutes'"
# Of tokens, as a ceiling sees it that is looked at before the call.
_LESS_THAN_A_CALL = 5_000


def offset(day: str) -> float:
    """How wrong a clock goes on which it is another day: one o'clock tomorrow, or eleven in the evening yesterday."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    wrong = {"today": now, "tomorrow": midnight + timedelta(hours=25), "yesterday": midnight - timedelta(hours=1)}
    return (wrong[day] - now).total_seconds()


def note(fleet: Fleet, known: Known, text: str) -> None:
    status, reply = fleet.ask(known, "/working_memory_note", {"note": text, "importance": 0.9})
    assert status == 200, reply


def is_dreamt(fleet: Fleet, known: Known, text: str) -> bool:
    if not fleet.tables.row(known)["generation"]:
        return False
    here = fleet.tables.last(known)
    rows = lived.rows(here, "SELECT 1 FROM crystals WHERE text = ? AND dreamt_in IS NOT NULL", text)
    return len(rows) == 1 and text not in lived.pending(here)


@contextmanager
def settled(*clocks: float) -> Iterator[Fleet]:
    """A fleet whose first machine asks a model; all workspaces are one tenant's. Nobody runs yet.

    `clocks`: how wrong each machine's goes.
    """
    with Fleet("folder", len(clocks), clocks, model_seconds=0.01) as fleet:
        fleet.settle(2, 1)
        yield fleet


@pytest.mark.parametrize("day", ["tomorrow", "yesterday"])
def test_a_machine_alone_dreams_as_usual_within_the_ceilings_of_postgresqls_day(day: str) -> None:
    """And no note is of the future."""
    with settled(offset(day)) as fleet:
        known, other = fleet.known
        fleet.start()
        for text in ("Ada prefers tea", "Grace likes green"):
            note(fleet, known, text)
            until(lambda text=text: is_dreamt(fleet, known, text), seconds=_USUAL_SECONDS)  # type: ignore[misc]
        status, reply = fleet.ask(known, "/memory_state")
        assert status == 200, reply
        assert abs(datetime.fromisoformat(reply["read_at"]) - fleet.tables.database.now()) < timedelta(minutes=5)
        here, now = fleet.tables.last(known), fleet.tables.database.now()
        rows = lived.rows(here, "SELECT created_at AS at FROM crystals WHERE origin = 'scratch'")
        times = [datetime.fromisoformat(row["at"]) for row in rows]
        assert len(times) == 2
        assert now - timedelta(minutes=5) < min(times) <= max(times) <= now
        spent = fleet.tables.database.rows("SELECT day, dreams, tokens FROM spending WHERE dreams > 0")
        assert [row["day"] for row in spent] == [now.date()]
        assert spent[0]["dreams"] >= 2
        assert spent[0]["tokens"] > 0
        tenants = fleet.tables.tenants
        quotas = replace(Quotas(), dreams_per_day=spent[0]["dreams"])
        tenants.set_quotas(tenants.find(known.tenant_name), quotas)
        status, own = fleet.ask_at("/v1/status", known.token)
        assert (status, own["dreams_today"]) == (200, spent[0]["dreams"])
        for place in (both := (known, other)):
            note(fleet, place, "Barbara likes plums")
            status, reply = fleet.ask(place, "/dream_now", {"wait": True})
            assert (status, reply["code"]) == (429, "QUOTA")
        until(lambda: len(fleet.tables.database.rows(_PUT_OFF)) == len(both), seconds=_USUAL_SECONDS)
        after = fleet.tables.database.rows("SELECT day, dreams, tokens FROM spending WHERE dreams > 0")
        assert after == spent
        # What was spent yesterday, by PostgreSQL's clock, is spent no more today.
        fleet.tables.database.rows("UPDATE spending SET day = day - 1")
        fleet.tables.database.rows("UPDATE workspaces SET due_at = clock_timestamp() WHERE queued_at IS NULL")
        until(lambda: any(is_dreamt(fleet, one, "Barbara likes plums") for one in both), seconds=_USUAL_SECONDS)


@pytest.mark.parametrize("day", ["today", "tomorrow", "yesterday"])
def test_the_ceilings_of_a_workspace_are_those_of_postgresqls_day(day: str) -> None:
    """What it spent with one machine counts with the next one, whose clock is on another day."""
    with settled(0.0) as fleet:
        known, [machine] = fleet.known[0], fleet.machines
        fleet.start()
        note(fleet, known, "Ada prefers tea")
        until(lambda: is_dreamt(fleet, known, "Ada prefers tea"), seconds=_USUAL_SECONDS)
        machine.end()
        [row] = fleet.tables.database.rows("SELECT sum(tokens) AS tokens FROM spending")
        assert row["tokens"] > 0
        fleet.settings["DREAMD_LIMITS__TOKENS_PER_DAY"] = str(row["tokens"] + _LESS_THAN_A_CALL)
        machine.clock.set(offset(day))
        machine.start()
        machine.wait_until_started()
        note(fleet, known, "Grace likes green")
        status, reply = fleet.ask(known, "/dream_now", {"wait": True})
        assert (status, reply["code"]) == (429, "CEILING")
        [after] = fleet.tables.database.rows("SELECT sum(tokens) AS tokens FROM spending")
        assert after == row


@pytest.mark.parametrize("day", ["tomorrow", "yesterday"])
def test_a_token_ends_by_postgresqls_clock(day: str) -> None:
    with settled(offset(day)) as fleet:
        [machine] = fleet.machines
        words = ["fleet", "token", "add", fleet.known[0].tenant_name, "late", "--days", "0.5"]
        environment = os.environ | machine.environment()
        ended = forked.run(words, environment=environment, before=machine.clock.before)
        assert ended.returncode == 0, ended.stderr
        token = fleet.tables.database.tokens.authenticate(ended.stdout.decode().strip())
        assert token is not None
        assert token.expires_at is not None
        assert abs(token.expires_at - fleet.tables.database.now() - timedelta(hours=12)) < timedelta(minutes=5)
