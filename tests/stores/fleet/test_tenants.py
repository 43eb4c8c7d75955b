"""Tenants, tokens and workspaces: names, quotas, removal while work is under way."""

import pytest

from state.errors import NotFoundError, QuotaError, UsageError
from state.fleet import Quotas, Right
from tests.stores.fleet.fleet import Fleet, together


def test_a_quota_of_workspaces_holds_for_those_who_add_at_once(fleet: Fleet) -> None:
    tenant = fleet.tenants.add("acme", Quotas(workspaces=3))
    answers = together(*[lambda name=f"w{number}": fleet.places.add(tenant, name) for number in range(10)])
    assert sum(isinstance(answer, QuotaError) for answer in answers) == 7
    assert len(fleet.places.all(tenant.id)) == 3


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "", "x" * 5_000, "../x", "WS"])
def test_what_can_be_no_name_is_found_nowhere(fleet: Fleet, name: str) -> None:
    tenant, tokens = fleet.tenant(), fleet.database.tokens
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
