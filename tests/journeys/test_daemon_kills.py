"""The daemon is killed at random times under load: no acknowledged note is lost or doubled, nothing is paid twice."""

import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support import lived
from tests.support.load import Load
from tests.support.long_variants import variants
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Daemon, Home


def good_and_late(request: dict[str, Any], number: int) -> str:
    """A model that takes a moment: time enough to be killed while one waits."""
    time.sleep(0.4)
    return good(request, number)


@dataclass(slots=True)
class Paid:
    """What the model was asked, and after how many kills."""

    model: ScriptedModel
    kills: int = 0
    asked: list[tuple[int, str]] = field(default_factory=list)

    def look(self) -> None:
        """Remember what came since the last look; after each kill, and at the end."""
        for request in self.model.requests[len(self.asked) :]:
            self.asked.append((self.kills, json.dumps(request, sort_keys=True)))

    def killed(self) -> None:
        """A daemon was: wait for what it sent just before, which a busy machine reads only when the next one runs."""
        count = -1
        while count != self.model.count:
            count = self.model.count
            time.sleep(0.3)
        self.look()
        self.kills += 1

    def again(self) -> list[str]:
        """What was asked twice between two kills."""
        return [request for (_, request), times in Counter(self.asked).items() if times > 1]


def killed(daemon: Daemon, paid: Paid, rng: random.Random) -> None:
    """At some time, or when a model is being asked or has just answered."""
    daemon.until_ready()
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0.0, 3.0))
    else:
        before = paid.model.count
        daemon.until(lambda: paid.model.count > before)
        time.sleep(rng.uniform(0.0, 1.0))
    daemon.kill()
    paid.killed()


@pytest.mark.full
@pytest.mark.parametrize("kills", variants(3, 120))
def test_a_daemon_that_is_killed_under_load_loses_nothing(home: Home, kills: int) -> None:
    seed = int(os.environ.get("DREAMD_SEED", "20260312"))
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    home.configure(
        dream={"interval_minutes": 1 / 60, "min_chunks": 3}, limits={"usd_per_day": 1e6, "tokens_per_day": 10**9}
    )
    workspaces = [home.workspace("first"), home.workspace("second")]
    load = Load(home, random.Random(seed + 1))
    with ScriptedModel(good_and_late) as model:
        home.asks(model)
        paid = Paid(model)
        first, second = workspaces
        every = (load.by_appending, load.over_the_socket, load.searching, load.reading)
        alone = ((load.by_command, first), (load.over_mcp, second))  # a process for each note is enough for one
        with load.on(*alone, *((each, one) for each in every for one in workspaces)):
            for _ in range(kills):
                daemon = home.start()
                try:
                    killed(daemon, paid, rng)
                finally:
                    daemon.kill()
            with home.serving() as daemon:
                committed = len(daemon.events("dream_committed"))
                daemon.until(lambda: len(daemon.events("dream_committed")) > committed)
            paid.killed()
        assert load.wrong == []
        with home.serving() as daemon:
            for workspace in workspaces:
                while home.dreamd("dream", workspace.root).status != 3:
                    assert daemon.process.poll() is None
                for text in load.acknowledged[workspace.root.name]:
                    assert text in daemon.found(workspace, text)
        paid.look()
    assert paid.again() == []
    assert load.searched > 0
    assert load.digests
    for workspace in workspaces:
        name = workspace.root.name
        places = lived.places(workspace)
        assert [text for text, times in places.items() if times != 1] == []
        assert set(load.acknowledged[name]) <= set(places)
        assert set(places) <= load.tried[name]
        assert lived.pending(workspace) == []
        assert "running" not in lived.outcomes(workspace)
        twice = "SELECT dream FROM calls WHERE usable GROUP BY dream, digest HAVING count(*) > 1"
        assert lived.rows(workspace, twice) == []
        versions = {row["digest"] for row in lived.rows(workspace, "SELECT digest FROM versions")}
        assert load.digests.get(name, set()) <= versions
        lived.assert_valid(workspace)
    print(f"{model.count} calls, {sum(map(len, load.acknowledged.values()))} notes, {load.searched} searches")
