"""Tenants, tokens and workspaces: names, quotas, removal while work is under way."""

from datetime import UTC, datetime, timedelta

import pytest

from state.budget import Spend
from state.errors import ConflictError, FencedError, NotFoundError, QuotaError, UsageError
from state.fleet import Quotas, Right
from state.stores.fleet.registry import Tokens
from tests.stores.fleet.fleet import Fleet, commit_of, together


@pytest.fixture
def tokens(fleet: Fleet) -> Tokens:
    numbers = iter(range(1_000_000))
    return Tokens(fleet.database, lambda size: next(numbers).to_bytes(size))


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
    lease = fleet.leases.commit(first := fleet.lease(place), commit_of(first, dreams=1, spent=Spend(1, 1, 1.0)))
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
