"""What a tenant is told: nothing of machines, and no advice that only their operator can follow."""

import pytest

from daemon.fleet.disclosure import error_for_tenant, notices_for_tenant, value_for_tenant
from daemon.workspace.status import Problem
from state.errors import NotFoundError, OperatorNotice, StorageError, UnreachableError
from state.fleet import Place

PLACE = Place(7, 3, "acme", "notes")


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        (("'dreamd history' lists the versions",), "'dreamd history' lists the versions"),
        (("", "run 'dreamd doctor'"), ""),
        (("it opens again at midnight", "or raise limits.usd_per_day"), "it opens again at midnight"),
        (("look into /var/lib/dreamd/fleet/worker-1/log",), "look into …"),
    ],
)  # fmt: skip
def test_an_error_gives_a_tenant_the_advice_for_all(advice: tuple[str, ...], expected: str) -> None:
    error = NotFoundError("there is no version 9", *advice)
    assert str(error) == "; ".join(filter(None, ["there is no version 9", ", ".join(filter(None, advice))]))
    assert error_for_tenant(error, PLACE).advice == expected


@pytest.mark.parametrize(
    ("deed", "advice"),
    [("dream", "do this in …"), ("restore 3", "do this in …"), ("doctor", ""), ("", "")],
)
def test_a_problem_says_what_a_tenant_can_do_about_it(deed: str, advice: str) -> None:
    problem = value_for_tenant(Problem("something is wrong", "do this in /srv/x", deed), PLACE)
    assert (problem.advice, problem.deed) == (advice, deed)


def test_notices_for_the_operator_are_left_out() -> None:
    notices = ["/srv/x/MEMORY.md is not UTF-8", OperatorNotice("run 'dreamd models install'")]
    assert notices_for_tenant(notices, PLACE) == ["… is not UTF-8"]


@pytest.mark.parametrize("error", [StorageError("/srv/x is full", "free it"), OSError("/srv/x"), KeyError("secret")])
def test_what_happens_on_a_machine_is_not_told(error: Exception) -> None:
    shown = error_for_tenant(error, PLACE)
    assert isinstance(shown, UnreachableError)
    assert "/srv" not in str(shown)
    assert "secret" not in str(shown)


def test_a_memory_that_speaks_of_commands_is_given_as_it_is() -> None:
    line = "Ada starts 'dreamd serve'; then she sets limits.usd_per_day"
    assert value_for_tenant((line,), PLACE) == (line,)
