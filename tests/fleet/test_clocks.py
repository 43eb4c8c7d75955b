"""A machine whose clock is on another day: notes become crystals, and days and times are PostgreSQL's."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.fleet import Quotas
from state.stores.fleet.registry import Tenants, Tokens
from tests.fleet.house import House
from tests.fleet.machines import Fleet, Known
from tests.support import forked, lived
from tests.support.serving import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

# With these settings a dream comes two seconds after its notes; the rest is for a busy machine.
_USUAL_SECONDS = 30.0
# Of tokens, as a ceiling sees it that is looked at before the call.
_LESS_THAN_A_CALL = 5_000


def offset(day: str) -> float:
    """How wrong a clock goes on which it is another day: one o'clock tomorrow, or eleven in the evening yesterday."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    wrong = {"today": now, "tomorrow": midnight + timedelta(hours=25), "yesterday": midnight - timedelta(hours=1)}
    return (wrong[day] - now).total_seconds()


class OtherDay(House):
    """A fleet of some machines, of which the first asks a model; all workspaces are one tenant's."""

    def note(self, known: Known, text: str) -> None:
        status, reply = self.ask(known, "/working_memory_note", {"note": text, "importance": 0.9})
        assert status == 200, reply

    def is_dreamt(self, known: Known, text: str) -> bool:
        if not self.row(known)["generation"]:
            return False
        here = self.last(known)
        rows = lived.rows(here, "SELECT 1 FROM crystals WHERE text = ? AND dreamt_in IS NOT NULL", text)
        return len(rows) == 1 and text not in lived.pending(here)

    def limit(self, known: Known, **quotas: float) -> None:
        """From now on the tenant may so much."""
        tenants = Tenants(self.database)
        tenants.set_quotas(tenants.find(known.tenant), replace(Quotas(), **quotas))  # type: ignore[arg-type]


@contextmanager
def house(*clocks: float) -> Iterator[OtherDay]:
    """`clocks`: how wrong each machine's goes. Nobody runs yet."""
    fleet = Fleet("folder", len(clocks), clocks, model_seconds=0.01)
    with fleet, fleet.database() as database:
        fleet.settle(2, 1)
        yield OtherDay(fleet, database)


@pytest.mark.parametrize("day", ["tomorrow", "yesterday"])
def test_a_machine_alone_dreams_as_usual_within_the_ceilings_of_postgresqls_day(day: str) -> None:
    """And no note is of the future."""
    with house(offset(day)) as home:
        known, other = home.fleet.known
        home.fleet.start()
        for text in ("Ada prefers tea", "Grace likes green"):
            home.note(known, text)
            until(lambda text=text: home.is_dreamt(known, text), seconds=_USUAL_SECONDS)  # type: ignore[misc]
        status, reply = home.ask(known, "/memory_state")
        assert status == 200, reply
        assert abs(datetime.fromisoformat(reply["read_at"]) - home.database.now()) < timedelta(minutes=5)
        here, now = home.last(known), home.database.now()
        rows = lived.rows(here, "SELECT created_at AS at FROM crystals WHERE origin = 'scratch'")
        times = [datetime.fromisoformat(row["at"]) for row in rows]
        assert len(times) == 2
        assert now - timedelta(minutes=5) < min(times) <= max(times) <= now
        spent = home.database.rows("SELECT day, dreams, tokens FROM spending WHERE dreams > 0")
        assert [row["day"] for row in spent] == [now.date()]
        assert spent[0]["dreams"] >= 2
        assert spent[0]["tokens"] > 0
        home.limit(known, dreams_per_day=spent[0]["dreams"])
        status, own = home.ask_at("/v1/status", known.token)
        assert (status, own["dreams_today"]) == (200, spent[0]["dreams"])
        for place in (known, other):
            home.note(place, "Barbara likes plums")
            status, reply = home.ask(place, "/dream_now", {"wait": True})
            assert (status, reply["code"]) == (429, "QUOTA")
        time.sleep(8)  # several times as long as a dream waits
        after = home.database.rows("SELECT day, dreams, tokens FROM spending WHERE dreams > 0")
        assert after == spent
        # What was spent yesterday, by PostgreSQL's clock, is spent no more today.
        home.database.rows("UPDATE spending SET day = day - 1")
        home.database.rows("UPDATE workspaces SET due_at = clock_timestamp() WHERE queued_at IS NULL")
        until(lambda: home.is_dreamt(known, "Barbara likes plums") or home.is_dreamt(other, "Barbara likes plums"),
              seconds=_USUAL_SECONDS)  # fmt: skip


@pytest.mark.parametrize("day", ["today", "tomorrow", "yesterday"])
def test_the_ceilings_of_a_workspace_are_those_of_postgresqls_day(day: str) -> None:
    """What it spent with one machine counts with the next one, whose clock is on another day."""
    with house(0.0) as home:
        known, [machine] = home.fleet.known[0], home.fleet.machines
        home.fleet.start()
        home.note(known, "Ada prefers tea")
        until(lambda: home.is_dreamt(known, "Ada prefers tea"), seconds=_USUAL_SECONDS)
        machine.end()
        [row] = home.database.rows("SELECT sum(tokens) AS tokens FROM spending")
        assert row["tokens"] > 0
        home.fleet.settings["DREAMD_LIMITS__TOKENS_PER_DAY"] = str(row["tokens"] + _LESS_THAN_A_CALL)
        machine.clock.set(offset(day))
        machine.start()
        machine.wait_until_started()
        home.note(known, "Grace likes green")
        status, reply = home.ask(known, "/dream_now", {"wait": True})
        assert (status, reply["code"]) == (429, "CEILING")
        [after] = home.database.rows("SELECT sum(tokens) AS tokens FROM spending")
        assert after == row


@pytest.mark.parametrize("day", ["tomorrow", "yesterday"])
def test_a_token_ends_by_postgresqls_clock(day: str) -> None:
    with house(offset(day)) as home:
        [machine] = home.fleet.machines
        words = ["fleet", "token", "add", home.fleet.known[0].tenant, "late", "--days", "0.5"]
        environment = os.environ | machine.environment()
        ended = forked.run(words, environment=environment, before=machine.clock.before)
        assert ended.returncode == 0, ended.stderr
        token = Tokens(home.database).authenticate(ended.stdout.decode().strip())
        assert token is not None
        assert token.expires_at is not None
        assert abs(token.expires_at - home.database.now() - timedelta(hours=12)) < timedelta(minutes=5)
