"""A dream that was killed goes on at the node that was running, and pays its model for nothing twice."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graphs.dream import build
from graphs.ports import Answer, Request, Trial
from state.crystals.crystal import Crystal
from state.dream import Dream, Snapshot
from tests.graphs.world import NOW, Scripted, World, memory, ports, said, snapshot, spoken

NOTES = [f"The bridge to host{n:02} lost its eigentrust score after the restart." for n in range(12)]
INSIGHT = '{"insights": [{"text": "The bridge loses eigentrust scores after every restart.", "cites": ["N1", "N2"]}]}'
ADD = said(
    {"op": "add", "section": "Active Context", "text": "The bridge to host00 lost its score.", "cites": ["N1"]}
)
EVICT = said({"op": "evict", "line": "L1", "topic": "The importer", "cites": ["L1"]}, consumed=["N1"])
START: Any = {"dream": "20260312T143000Z", "reason": "manual", "now": NOW.isoformat()}
CONFIG: Any = {"configurable": {"thread_id": "20260312T143000Z"}}


class KilledError(Exception):
    """The process is gone."""


class Mortal(World):
    """A world that is killed once, at the named call."""

    killer: str = ""

    def _dies(self, call: str) -> None:
        if self.killer == call:
            self.killer = ""
            raise KilledError(call)

    @contextmanager
    def trial(self, crystals: Sequence[Crystal]) -> Iterator[Trial]:
        """Search as if these were kept."""
        self._dies("trial")
        with super().trial(crystals) as trial:
            yield trial

    def commit(self, dream: Dream) -> Dream:
        """Keep the dream."""
        self._dies("commit")
        return super().commit(dream)


class MortalModel(Scripted):
    """A model whose process is killed once, before the answer of this number is seen."""

    fatal: int = 0

    def ask(self, request: Request) -> Answer:
        """The next answer."""
        answer = super().ask(request)
        if len(self.requests) == self.fatal:
            self.fatal = 0
            self.requests.pop()
            raise KilledError("model")
        return answer


def reading() -> Snapshot:
    return snapshot(
        memory(
            context=[
                "The importer fails on rows that are empty.",
                "CI is slow on Mondays, because of the browser tests of the other team.",
            ]
        ),
        *NOTES,
    )


def dreamt_with_a_kill(world: World, model: Scripted) -> dict[str, Any]:
    graph = build(ports(world, model), InMemorySaver())
    with pytest.raises(KilledError):
        graph.invoke(START, CONFIG, durability="sync")
    result: dict[str, Any] = graph.invoke(None, CONFIG, durability="sync")
    return result


@pytest.mark.parametrize("killer", ["trial", "commit"])
def test_a_kill_in_a_later_node_asks_the_model_nothing_again(killer: str) -> None:
    whole = World(snapshot=reading())
    build(ports(whole, Scripted([INSIGHT, EVICT]))).invoke(START)
    here, model = Mortal(snapshot=reading()), Scripted([INSIGHT, EVICT])
    here.killer = killer
    assert dreamt_with_a_kill(here, model)["outcome"] == "committed"
    assert [request.schema_name for request in model.requests] == ["insights", "memory_update"]
    assert here.committed == whole.committed


@pytest.mark.parametrize("fatal", [1, 2])
def test_a_kill_while_the_model_answers_repeats_that_question_alone(fatal: int) -> None:
    model = MortalModel([INSIGHT, ADD])
    model.fatal = fatal
    here = World(snapshot=reading())
    assert dreamt_with_a_kill(here, model)["outcome"] == "committed"
    assert [request.schema_name for request in model.requests] == ["insights", "memory_update"]
    assert here.committed[0].usage.calls == 2


def test_a_kill_between_two_tries_keeps_the_count_and_the_reason() -> None:
    model = MortalModel([INSIGHT, spoken(ADD, "length"), ADD])
    model.fatal = 3
    here = World(snapshot=reading())
    assert dreamt_with_a_kill(here, model)["outcome"] == "committed"
    assert "that was answer 1 of 3" in model.requests[-1].user
    assert here.committed[0].usage.calls == 3
