"""Names and values of the fleet: what may be a name, what a token reaches, where a workspace lies."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import UsageError
from state.fleet import Place, Quotas, Tenant, Token, require_name


@pytest.mark.parametrize("name", ["a", "0", "a-", "a" * 48, "acme-2"])
def test_a_name_is_itself(name: str) -> None:
    assert require_name("tenant", name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", "A", "a" * 49, "a\n", "a b", "a/b", "..", "a~b", "é", "a\0", "\ud800", "٣"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a workspace"):
        require_name("workspace", name)


@given(st.text())
def test_a_name_is_safe_in_an_address_and_as_a_folder(text: str) -> None:
    if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,47}", text, re.ASCII):
        assert require_name("workspace", text) == text
        return
    with pytest.raises(UsageError) as refused:
        require_name("workspace", text)
    assert str(refused.value).isprintable(), "a terminal obeys nothing of it"


def test_a_token_reaches_the_workspaces_that_it_names_and_without_any_all() -> None:
    tenant = Tenant(1, "acme")
    assert Token("t", tenant, "all", frozenset()).reaches("anything")
    narrow = Token("t", tenant, "one", frozenset(), ("one",))
    assert narrow.reaches("one")
    assert not narrow.reaches("on")


def test_a_workspace_lies_below_its_tenant() -> None:
    place = Place(7, 3, "acme", "notes")
    assert (place.prefix, place.handle) == ("3/7", "ws-7")


def test_no_quota_is_no_limit() -> None:
    assert not any(getattr(Quotas(), name) for name in Quotas.__slots__)
