"""Agents: `dreamd mcp` over stdio, killed as it answers; the working memory of sessions, killed at any statement."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import IO, Any

from tests.chaos.harm import Blow, Harm
from tests.chaos.trial import Trial
from tests.crash.test_sessions_crash import killed_and_opened

_INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "chaos", "version": "1"}}


class GoneError(Exception):
    """The other side of the wire is dead."""


@dataclass(slots=True)
class Wire:
    """The two ends of `dreamd mcp` that an agent has."""

    to: IO[bytes]
    of: IO[bytes]
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def call(self, method: str, **parameters: Any) -> Any:
        """The result. Raises GoneError when there is none."""
        number = next(self.ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        while line := self.of.readline():
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer["result"]
        raise GoneError

    def send(self, message: Any) -> None:
        try:
            self.to.write(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise GoneError from None

    def tool(self, tool: str, **arguments: Any) -> Any:
        """The answer of a tool; None when it is an error."""
        result = self.call("tools/call", name=tool, arguments=arguments)
        return None if result.get("isError") else "\n".join(part["text"] for part in result["content"])


@contextmanager
def agent(trial: Trial, harm: Harm) -> Iterator[Wire]:
    """An agent with a `dreamd mcp` of its own, initialized unless it was killed before."""
    with trial.living("mcp", "-w", trial.workspace.root, harm=harm, piped=True) as process:
        assert process.process.stdin
        assert process.process.stdout
        wire = Wire(process.process.stdin, process.process.stdout)
        with suppress(GoneError):
            wire.call("initialize", **_INITIALIZE)
            wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield wire
        process.process.kill()
        trial.ended(process)


def over_mcp(trial: Trial) -> None:
    """Notes and items of sessions over MCP; a life is killed at a change of the disk, or when the agent goes."""
    rng = trial.rng
    for _ in range(rng.randint(1, 3)):
        blow, call = rng.choice((Blow.KILL, Blow.TORN)), int(rng.random() ** 2 * 120)
        harm = Harm(blow, call=call) if rng.random() < 0.6 else Harm()
        with agent(trial, harm) as wire, suppress(GoneError):
            for _ in range(rng.randint(2, 12)):
                talk(trial, wire)
        trial.torn = trial.torn or harm.blow is not None
        trial.remember()


def talk(trial: Trial, wire: Wire) -> None:
    """Note something, add an item to a session, or search."""
    what = trial.rng.random()
    if what < 0.5:
        (text,) = trial.texts(1)
        if wire.tool("working_memory_note", note=text) is not None:
            trial.took(text)
    elif what < 0.9:
        content = f"item {len(trial.items)} of {trial.rng.randrange(10**9)}"
        if wire.tool("working_memory_add", session_id="chat", content=content, priority="critical") is not None:
            trial.items.append(content)
        trial.most_dreams = 4
    else:
        wire.tool("memory_search", query="Who repaired the kettle?")


def sessions(trial: Trial) -> None:
    """Working memory of all four policies, killed at any statement: it reopens to what was acknowledged."""
    seed = trial.rng.randrange(10**6)
    # At which statement: each seed has that many.
    for number in range(trial.rng.randint(2, 4)):
        try:
            killed_and_opened(trial.folder / f"sessions-{number}", seed, trial.rng.randrange(1_500))
        finally:
            trial.tally.kills += 1
            trial.tally.lives += 1
