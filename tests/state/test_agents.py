"""The names of agents: a closed set, whatever a client calls itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.agents import AGENTS, agent_called, reader_of
from tests.support.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize(("name", "agent"), CASES["an_agent_is_known_by_what_it_calls_itself"])
def test_an_agent_is_known_by_what_it_calls_itself(name: str, agent: str) -> None:
    assert agent_called(name) == agent


@given(st.text())
def test_no_word_of_anybody_becomes_a_name(name: str) -> None:
    assert agent_called(name) in AGENTS
    assert reader_of(agent_called(name)).characters > 0


def test_every_name_is_its_own() -> None:
    assert [agent_called(agent) for agent in AGENTS] == list(AGENTS)
