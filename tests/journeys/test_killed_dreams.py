"""A dream that is killed, wherever: started again it goes on, pays nothing twice, and no note is lost or doubled."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.chaos.harm import NODES, NONE, Blow, Harm
from tests.chaos.lives import Life, Running, living, until
from tests.support import lived
from tests.support.long_variants import fewer, variants
from tests.support.model_characters import good
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.serving import THINGS, noted

PLACES = [Harm(Blow.KILL, node, leaving=leaving) for node in NODES for leaving in (False, True)]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "agent")


@pytest.fixture
def served() -> Iterator[ScriptedModel]:
    with ScriptedModel(good) as server:
        yield server


@contextmanager
def dreaming(workspace: Workspace, harm: Harm = NONE, model: ScriptedModel | None = None) -> Iterator[Running]:
    """`dreamd dream` as a process."""
    asked = {**model.variables, "XDG_CONFIG_HOME": "/nonexistent"} if model else {}
    with TemporaryDirectory() as folder:
        said, environment = Path(folder) / "said", {**os.environ, **asked}
        with living("dream", workspace.root, said=said, environment=environment, harm=harm) as process:
            yield process


def dreamt(workspace: Workspace, harm: Harm = NONE, model: ScriptedModel | None = None) -> Life:
    with dreaming(workspace, harm, model) as process:
        return process.ended()


@pytest.mark.full
@pytest.mark.parametrize("calls", variants((0, 13), range(30)))
def test_a_dream_that_is_killed_in_any_node_is_finished_by_the_next_one(
    workspace: Workspace, served: ScriptedModel, calls: Sequence[int]
) -> None:
    notes: list[str] = []
    for number, place in enumerate([*PLACES, *(Harm(Blow.KILL, "commit", call=call) for call in calls)]):
        notes += noted(workspace, [f"The {thing} of house {number} was repaired by Ada" for thing in THINGS])
        paid = served.count
        killed = dreamt(workspace, place, served)
        assert killed.status == -signal.SIGKILL, f"{place}: {killed}"
        assert set(notes) <= lived.remembered(workspace)
        resumed = dreamt(workspace, model=served)
        lived.assert_once(workspace, notes)
        lived.assert_valid(workspace)
        # Decided before it was killed: then there was nothing left for the second one but to say so.
        finished = "had committed version" in resumed.said
        assert resumed.status == (3 if finished else 0), f"{place}: {resumed}"
        assert finished or place.call or (place.node, place.leaving) != ("commit", True), f"{place}: {resumed}"
        assert served.count - paid == 1, f"{place}: it is asked for once"
        assert lived.calls(workspace) == served.count
        assert lived.rows(workspace, "SELECT sum(calls) FROM steps")[0][0] == served.count
        assert lived.outcomes(workspace)[-1 - finished] == "committed"
    assert "running" not in lived.outcomes(workspace)


@pytest.mark.full
def test_a_dream_that_is_killed_while_the_model_thinks_asks_again_and_keeps_what_was_answered(
    workspace: Workspace,
) -> None:
    """Killed from outside: the first answer was told what to mend, the second did not come."""

    def slow_the_first_time(request: dict[str, object], number: int) -> Reply:
        wrong = json.dumps({"operations": [{"op": "evict", "lines": ["L9"], "topic": "x"}]})
        return Reply(wrong if number == 1 else good(request, number), wait_seconds=600 if number == 2 else 0)

    notes = noted(workspace, [f"The {thing} was repaired by Ada" for thing in THINGS])
    with ScriptedModel(slow_the_first_time) as server:
        with dreaming(workspace, model=server) as first:
            until(lambda: server.count == 2 or first.process.poll() is not None)
        assert sorted(lived.pending(workspace)) == sorted(notes)
        assert lived.outcomes(workspace) == ["running"]
        again = dreamt(workspace, model=server)
        assert again.status == 0, again
        assert "was interrupted; it goes on" in again.said
        assert server.count == 3
        assert server.requests[1] == server.requests[2]
    lived.assert_once(workspace, notes)
    lived.assert_valid(workspace)
    assert lived.outcomes(workspace) == ["committed"]


@pytest.mark.parametrize("wanted", variants(20, 200))
def test_dreams_that_are_killed_at_random_lose_and_double_nothing(workspace: Workspace, wanted: int) -> None:
    seed = int(os.environ.get("DREAMD_SEED", "20260312"))
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    notes: list[str] = []
    kills, turn, life_seconds = 0, 0, 0.0
    wanted = wanted if wanted > 20 else fewer(7, wanted)
    while kills < wanted:
        assert turn < 20 * wanted, "they are too quick to be killed"
        notes += noted(workspace, [f"Turn {turn}: the {thing} was repaired by Ada" for thing in THINGS[:3]])
        began = time.monotonic()
        with dreaming(workspace) as process:
            if turn > 0:  # the first one shows how long a whole life is
                time.sleep(rng.uniform(0.0, life_seconds))
                process.send(signal.SIGKILL)
            life = process.ended()
        life_seconds = life_seconds or time.monotonic() - began
        turn += 1
        kills += life.status == -signal.SIGKILL
        assert life.status in {0, 3, -signal.SIGKILL}, life
        if workspace.database.exists():
            assert set(notes) <= lived.remembered(workspace)
    while dreamt(workspace).status == 0:
        pass
    lived.assert_once(workspace, notes)
    lived.assert_valid(workspace)
    assert "running" not in lived.outcomes(workspace)


@pytest.mark.full
@pytest.mark.parametrize("place", [Harm(Blow.STOP, "evict"), Harm(Blow.STOP, "commit", call=46)], ids=str)
def test_a_dream_that_is_stopped_and_displaced_commits_nothing_when_it_goes_on(
    workspace: Workspace, served: ScriptedModel, place: Harm
) -> None:
    notes = noted(workspace, [f"The {thing} was repaired by Ada" for thing in THINGS])
    with dreaming(workspace, place, served) as first:
        until(lambda: first.is_stopped)
        second = dreamt(workspace, model=served)
        finished = "had committed version" in second.said
        assert second.status == (3 if finished else 0), second
        more = noted(workspace, ["The cat is called Miez"])
        assert dreamt(workspace, model=served).status == 0
        text = lived.document(workspace)
        first.send(signal.SIGCONT)
        life = first.ended()
    assert life.status == 5, life
    assert "taken over" in life.said
    assert lived.document(workspace) == text
    lived.assert_once(workspace, notes + more)
    lived.assert_valid(workspace)
    assert set(lived.outcomes(workspace)) <= {"committed", "skipped"}
    assert served.count == 2
    assert lived.rows(workspace, "SELECT * FROM tombstones") == []
