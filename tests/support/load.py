"""Everybody who writes and asks while something else happens to the daemon: agents, people, a reader of MEMORY.md."""

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.search import memory_search
from state.document.document import SectionName, parse
from state.errors import BusyError, FencedError, StoppedError, StorageError
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import over_stdio
from tests.support import lived
from tests.support.serving import Home

_WHO = "Ada Grace Linus Barbara Edsger Alan Margaret Dennis Radia Ken".split()
_DID = "painted repaired sold borrowed measured lost found photographed described counted".split()
_WHAT = "kettle bicycle piano ladder carpet fence clock stove window lamp violin compass anchor saddle".split()
_WHERE = "harbour bakery library museum orchard quarry railway vineyard airport brewery castle dairy".split()
# While the daemon is dead, starts, or ends, somebody who asks is told one of these.
_EXPECTED = (BusyError, FencedError, StoppedError, StorageError)


@dataclass(slots=True)
class Load:
    """What is written and asked while the daemon is killed. A note is acknowledged or only tried."""

    home: Home
    rng: random.Random
    tried: dict[str, set[str]] = field(default_factory=dict)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    digests: dict[str, set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    expected: tuple[type[Exception], ...] = _EXPECTED
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
            except self.expected:
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
            except self.expected:
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
    def on(self, *doing: tuple[Callable[[Workspace], None], Workspace]) -> Iterator[None]:
        """All of this, until the end of the block."""

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
