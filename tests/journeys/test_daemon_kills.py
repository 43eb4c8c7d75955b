"""The daemon is killed at random times under load: no acknowledged note is lost or doubled, nothing is paid twice."""

import hashlib
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.search import memory_search
from state.document.document import SectionName, parse
from state.errors import BusyError, FencedError, StoppedError, StorageError
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import over_stdio
from tests.support import lived
from tests.support.long_variants import variants
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Daemon, Home

_WHO = "Ada Grace Linus Barbara Edsger Alan Margaret Dennis Radia Ken".split()
_DID = "painted repaired sold borrowed measured lost found photographed described counted".split()
_WHAT = "kettle bicycle piano ladder carpet fence clock stove window lamp violin compass anchor saddle".split()
_WHERE = "harbour bakery library museum orchard quarry railway vineyard airport brewery castle dairy".split()
# While the daemon is dead, starts, or ends, somebody who asks is told one of these.
_EXPECTED = (BusyError, FencedError, StoppedError, StorageError)


def good_and_late(request: dict[str, Any], number: int) -> str:
    """A model that takes a moment: time enough to be killed while one waits."""
    time.sleep(0.4)
    return good(request, number)


@dataclass(slots=True)
class Load:
    """What is written and asked while the daemon is killed. A note is acknowledged or only tried."""

    home: Home
    rng: random.Random
    tried: dict[str, set[str]] = field(default_factory=dict)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    digests: dict[str, set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    searched: int = 0
    ending: threading.Event = field(default_factory=threading.Event)
    _number: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def note(self, workspace: Workspace) -> str:
        """A text that there is once, and that is like no other."""
        with self._turn:
            self._number += 1
            words = [self.rng.choice(words) for words in (_WHO, _DID, _WHAT, _WHERE)]
            text = "{} {} the {} of the {}".format(*words) + f", number {self._number} marked x{self._number * 7919}q"
            self.tried.setdefault(workspace.root.name, set()).add(text)
            return text

    def took(self, workspace: Workspace, text: str) -> None:
        self.acknowledged.setdefault(workspace.root.name, []).append(text)

    def pause(self) -> bool:
        """Whether it goes on after it."""
        return not self.ending.wait(self.rng.uniform(0.3, 1.5))

    def by_command(self, workspace: Workspace) -> None:
        while self.pause():
            text = self.note(workspace)
            ended = self.home.dreamd("note", "-w", workspace.root, text)
            assert ended.status == 0, ended
            self.took(workspace, text)

    def by_appending(self, workspace: Workspace) -> None:
        while self.pause():
            text = self.note(workspace)
            with workspace.scratch.open("a", encoding="utf-8") as log:
                log.write(f"- {text}\n")
            self.took(workspace, text)

    def over_the_socket(self, workspace: Workspace) -> None:
        while self.pause():
            text = self.note(workspace)
            try:
                self.home.client.call(workspace.root, working_memory_note, working_memory_note.bind(note=text))
            except _EXPECTED:
                continue
            self.took(workspace, text)

    def over_mcp(self, workspace: Workspace) -> None:
        """One agent, whose server outlives every daemon. A note that was under way may be there: it is told so."""

        async def agent() -> None:
            async with over_stdio("-w", str(workspace.root), **self.home.environment()) as client:
                while await anyio.to_thread.run_sync(self.pause):
                    text = self.note(workspace)
                    answer = await client.call_tool("working_memory_note", {"note": text})
                    if answer.is_error:
                        assert "the daemon went while it worked, and may have done it" in str(answer.content)
                        continue
                    self.took(workspace, text)

        anyio.run(agent)

    def searching(self, workspace: Workspace) -> None:
        while self.pause():
            try:
                self.home.client.call(
                    workspace.root, memory_search, memory_search.bind(query="Who repaired the kettle?")
                )
            except _EXPECTED:
                continue
            self.searched += 1

    def reading(self, workspace: Workspace) -> None:
        """MEMORY.md is a whole version whenever somebody looks."""
        while not self.ending.wait(0.005):
            text = lived.document(workspace)
            if text:
                parsed = parse(text)
                assert [part.name for part in parsed.parts if part.name is not None] == list(SectionName)
                self.digests.setdefault(workspace.root.name, set()).add(hashlib.sha256(text.encode()).hexdigest())

    @contextmanager
    def on(self, first: Workspace, second: Workspace) -> Iterator[None]:
        """All of this, until the end of the block. A process for each note is enough for one workspace."""
        doing: list[tuple[Callable[[Workspace], None], Workspace]] = [
            (self.by_command, first),
            (self.over_mcp, second),
        ]
        for each in (self.by_appending, self.over_the_socket, self.searching, self.reading):
            doing += [(each, first), (each, second)]

        def safely(one: Callable[[Workspace], None], workspace: Workspace) -> None:
            try:
                one(workspace)
            except BaseException as error:  # noqa: BLE001 - told by the test
                self.wrong.append(f"{one.__name__}: {error!r}")

        threads = [threading.Thread(target=safely, args=one) for one in doing]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.ending.set()
            for thread in threads:
                thread.join()


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
        dream={"interval_minutes": 1 / 60, "min_chunks": 3},
        limits={"usd_per_day": 1e6, "tokens_per_day": 10**9},
    )
    workspaces = [home.workspace("first"), home.workspace("second")]
    load = Load(home, random.Random(seed + 1))
    with ScriptedModel(good_and_late) as model:
        home.asks(model)
        paid = Paid(model)
        with load.on(*workspaces):
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
            daemon.terminated()
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
    assert "a defect" not in daemon.log
    assert "Traceback" not in daemon.log
    print(f"{model.count} calls, {sum(map(len, load.acknowledged.values()))} notes, {load.searched} searches")
