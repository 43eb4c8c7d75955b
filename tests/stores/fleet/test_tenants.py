"""Tenants, tokens and workspaces: names, quotas, removal while work is under way, erasures in their order."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from state.errors import ConflictError, FencedError, NotFoundError, QuotaError, UsageError
from state.fleet.tenant import Quotas, Right
from state.stores.fleet.leases import Spent
from state.stores.fleet.tenants import Tokens
from tests.stores.fleet.fleet import Fleet, commit_of, session, together, waits


@pytest.fixture
def tokens(fleet: Fleet) -> Tokens:
    numbers = iter(range(1_000_000))
    return Tokens(fleet.database, lambda size: next(numbers).to_bytes(size))


def test_of_the_same_name_at_once_one_is_made(fleet: Fleet) -> None:
    answers = together(*[lambda: fleet.tenants.add("acme")] * 8)
    assert sorted(type(answer).__name__ for answer in answers) == ["ConflictError"] * 7 + ["Tenant"]


def test_a_quota_of_workspaces_holds_for_those_who_add_at_once(fleet: Fleet) -> None:
    tenant = fleet.tenants.add("acme", Quotas(workspaces=3))
    answers = together(*[lambda name=f"w{number}": fleet.places.add(tenant, name) for number in range(10)])
    assert sum(isinstance(answer, QuotaError) for answer in answers) == 7
    assert len(fleet.places.all(tenant.id)) == 3


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "", "x" * 5_000, "../x", "WS"])
def test_what_can_be_no_name_is_found_nowhere(fleet: Fleet, tokens: Tokens, name: str) -> None:
    tenant = fleet.tenant()
    for find in (
        lambda: fleet.tenants.find(name),
        lambda: fleet.places.find(tenant.id, name),
        lambda: tokens.revoke(tenant, name),
    ):
        with pytest.raises(NotFoundError):
            find()
    for add in (
        lambda: fleet.tenants.add(name),
        lambda: fleet.places.add(tenant, name),
        lambda: tokens.add(tenant, name, [Right.READ]),
        lambda: tokens.add(tenant, "ok", [Right.READ], [name]),
    ):
        with pytest.raises(UsageError):
            add()
    assert fleet.places.all(tenant.id, after=name) == []


def test_quotas_of_a_newer_version_are_read_as_far_as_they_are_known(fleet: Fleet) -> None:
    fleet.tenants.add("acme", Quotas(workspaces=3))
    fleet.database.rows("UPDATE tenants SET quotas = quotas || '{\"moons\": 7}'")
    assert fleet.tenants.find("acme").quotas == Quotas(workspaces=3)


# ------------------------------------------------------------------- tokens


def test_a_token_is_known_by_its_secret_until_it_ends(fleet: Fleet, tokens: Tokens) -> None:
    tenant, now = fleet.tenant(), datetime.now(UTC)
    shown = tokens.add(tenant, "t", [Right.READ, Right.DREAM], ["one"], now + timedelta(hours=1))
    token = tokens.authenticate(shown)
    assert token is not None
    assert (token.tenant, token.name, token.workspaces) == (tenant, "t", ("one",))
    assert token.rights == {Right.READ, Right.DREAM}
    assert shown.rpartition("_")[2] not in str(fleet.database.rows("SELECT * FROM tokens"))
    assert tokens.authenticate(shown[:-1] + ("0" if shown[-1] != "0" else "1")) is None
    old = tokens.add(tenant, "old", [Right.READ], (), now - timedelta(seconds=1))
    assert tokens.authenticate(old) is None
    tokens.revoke(tenant, "t")
    assert tokens.authenticate(shown) is None


@pytest.mark.parametrize("shown", ["", "dreamd__", "dreamd_' OR 1=1_x", "\0", "dreamd_\ud800", "dreamd_" + "٣" * 12])
def test_what_is_no_token_is_none(tokens: Tokens, shown: str) -> None:
    assert tokens.authenticate(shown) is None


def test_a_token_for_a_tenant_that_is_gone_is_refused(fleet: Fleet, tokens: Tokens) -> None:
    tenant = fleet.tenant()
    fleet.tenants.close(tenant)
    fleet.tenants.drop(tenant.id)
    with pytest.raises(NotFoundError):
        tokens.add(tenant, "t", [Right.READ])


# ------------------------------------------------------------------- removal


def test_a_tenant_is_removed_while_a_job_runs_and_nothing_of_it_is_left(fleet: Fleet, tokens: Tokens) -> None:
    tenant = fleet.tenant()
    place, other = fleet.place(tenant), fleet.place()
    shown = tokens.add(tenant, "t", [Right.READ])
    lease = fleet.leases.commit(first := fleet.lease(place), commit_of(first, spent=Spent(1, 1, 1, 1.0)))
    fleet.schedule.queue(place.id)
    fleet.put(place)
    fleet.tenants.close(tenant)
    with pytest.raises(FencedError):
        fleet.leases.commit(lease, commit_of(lease))
    with pytest.raises(NotFoundError):
        fleet.places.add(tenant, "another")
    with pytest.raises(ConflictError):
        fleet.tenants.add(tenant.name)
    assert tokens.authenticate(shown) is None
    assert fleet.places.closed(tenant.id) == [place]
    assert [number for _, number in fleet.places.erasures(0)] == [place.id]
    assert fleet.row(place)["queued_at"] is None
    assert fleet.tenants.drop(tenant.id) == 1
    for left in (
        "SELECT 1 FROM tokens",
        "SELECT 1 FROM spending",
        "SELECT 1 FROM arrivals",
        "SELECT 1 FROM inbox",
        "SELECT 1 FROM procrastinate_jobs",
    ):
        assert fleet.database.rows(left) == []
    assert [facts.tenant.id for facts in fleet.tenants.all()] == [other.tenant]
    assert fleet.tenants.add(tenant.name).id != tenant.id


def test_a_tenant_that_was_not_closed_is_not_dropped(fleet: Fleet) -> None:
    place = fleet.place()
    assert fleet.tenants.drop(place.tenant) == 0
    assert fleet.row(place)["id"] == place.id


def test_no_erasure_is_seen_before_an_earlier_one(fleet: Fleet, fleet_url: str) -> None:
    """Numbers are given out before they are committed; a reader who has passed one would never see it."""
    places = [fleet.place() for _ in range(3)]
    lease = fleet.lease(places[2])
    with session(fleet_url) as slow:
        slow.execute("SELECT pg_advisory_xact_lock(%s)", [0x6572617365])
        slow.execute("INSERT INTO erasures (tenant, workspace) VALUES (1, 1)")
        others = [
            threading.Thread(target=fleet.places.close, args=[places[0]]),
            threading.Thread(target=lambda: fleet.leases.commit(lease, commit_of(lease, erased=True))),
            threading.Thread(target=lambda: fleet.tenants.close(fleet.tenants.find("tenant-2"))),
        ]
        for number, other in enumerate(others, 1):
            other.start()
            waits(fleet, number)
        assert fleet.places.erasures(0) == []
        assert fleet.places.last_erasure() == 0
        free = fleet.lease(fleet.place())
        fleet.leases.commit(free, commit_of(free))  # who erases nothing waits for nobody
    for other in others:
        other.join()
    assert len(fleet.places.erasures(0)) == 4


def test_old_erasures_and_spending_go_and_newer_ones_stay(fleet: Fleet) -> None:
    place = fleet.place()
    for days in (1, 29, 31):
        fleet.database.rows(
            "INSERT INTO erasures (tenant, workspace, at) VALUES (1, %(days)s,"
            " clock_timestamp() - make_interval(days => %(days)s))",
            {"days": days},
        )
    for days in (0, 399, 401):
        fleet.database.rows(
            "INSERT INTO spending (day, tenant, workspace, usd) VALUES (current_date - %(days)s::int, %(tenant)s,"
            " %(id)s, 1)",
            {"days": days, "tenant": place.tenant, "id": place.id},
        )
    assert fleet.places.sweep() == 2
    assert [workspace for _, workspace in fleet.places.erasures(0)] == [1, 29]
    assert len(fleet.database.rows("SELECT 1 FROM spending")) == 2
    assert fleet.places.sweep() == 0
