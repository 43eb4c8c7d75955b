"""What a tenant is told: nothing of machines, and no advice that only their operator can follow."""

import pytest

from daemon.fleet.disclosure import error_for_tenant, value_for_tenant
from daemon.workspace.status import Problem
from state.errors import NotFoundError, StorageError, UnreachableError
from state.fleet import Place

PLACE = Place(7, 3, "acme", "notes")


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("'dreamd history' lists the versions", "'dreamd history' lists the versions"),
        ("run 'dreamd doctor'", ""),
        ("free some space, or run 'dreamd doctor'; nothing was changed", "free some space, nothing was changed"),
        ("raise limits.usd_per_day, or wait until midnight", "or wait until midnight"),
        ("look into /var/lib/dreamd/fleet/worker-1/log", "look into …"),
    ],
)  # fmt: skip
def test_advice_is_what_a_tenant_can_do(advice: str, expected: str) -> None:
    assert error_for_tenant(NotFoundError("there is no version 9", advice), PLACE).advice == expected
    problem = value_for_tenant(Problem("something is wrong", advice, "dream"), PLACE)
    assert (problem.advice, problem.deed) == (expected, "dream")


@pytest.mark.parametrize("error", [StorageError("/srv/x is full", "free it"), OSError("/srv/x"), KeyError("secret")])
def test_what_happens_on_a_machine_is_not_told(error: Exception) -> None:
    shown = error_for_tenant(error, PLACE)
    assert isinstance(shown, UnreachableError)
    assert "/srv" not in str(shown)
    assert "secret" not in str(shown)


def test_a_memory_that_speaks_of_commands_is_given_as_it_is() -> None:
    line = "Ada starts 'dreamd serve'; then she sets limits.usd_per_day"
    assert value_for_tenant((line,), PLACE) == (line,)
