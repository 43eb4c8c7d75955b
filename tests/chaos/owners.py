"""Several who want the workspace: a stopped one that is displaced, two daemons, a daemon and the command line."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from daemon.api.client import Client
from daemon.api.operations.notes import working_memory_note
from state.errors import BusyError, DreamdError, FencedError, StoppedError, StorageError
from tests.chaos.crowds import agent, talk
from tests.chaos.harm import NODES, Blow, Harm
from tests.chaos.trial import Running, Trial, demand
from tests.daemon.mcp.agents import Raw
from tests.support import lived
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel, slowly
from tests.support.serving import until

# While a daemon is dead, starts, or ends, somebody who asks is told one of these.
_EXPECTED = (BusyError, FencedError, StoppedError, StorageError)


def fenced(trial: Trial) -> None:
    """A dream is stopped anywhere, another takes over, and the first one goes on: it commits nothing."""
    rng, where = trial.rng, trial.rng.random()
    if where < 0.3:
        harm = Harm(Blow.STOP, rng.choice(NODES), leaving=rng.random() < 0.5)
    elif where < 0.8:
        harm = Harm(Blow.STOP, "commit", call=rng.randrange(60))
    else:
        harm = trial.harm("dream", Blow.STOP)
    with trial.living("dream", trial.workspace.root, harm=harm) as first:
        until(lambda: first.is_stopped or not first.lives)
        trial.tally.faults += first.is_stopped
        trial.dream()
        trial.append()
        third = trial.dream()
        text = lived.document(trial.workspace)
        first.process.send_signal(rng.choice((signal.SIGCONT, signal.SIGCONT, signal.SIGKILL)))
        life = trial.ended(first)
    if third.status in (0, 3):  # nothing was left for the first one
        now = lived.document(trial.workspace)
        demand(now == text or now in trial.by_hand, f"a displaced dream wrote MEMORY.md: {life}")
        is_told = life.status == 5 and "taken over" in life.said
        demand(is_told or life.status in (0, 3, -signal.SIGKILL), f"a displaced dream is not told: {life}")


@contextmanager
def serving(trial: Trial, socket: Path | None = None, harm: Harm | None = None) -> Iterator[Running]:
    """`dreamd serve`, ready (or dead already), until the end of the block, where it is killed if it lives."""
    known = {"DREAMD_SOCKET": str(socket)} if socket else {}
    path = socket or trial.home.socket
    with trial.living("serve", harm=harm or Harm(), variables=known) as daemon:
        until(lambda: not daemon.lives or ready(path))
        try:
            yield daemon
        finally:
            daemon.process.kill()
            trial.ended(daemon)


def ready(socket: Path) -> bool:
    try:
        return bool(Client(socket).get("/readyz") == {"status": "ready"})
    except DreamdError:
        return False


def note_over(trial: Trial, socket: Path) -> None:
    """A note through the daemon; acknowledged when it answers."""
    (text,) = trial.texts(1)
    try:
        Client(socket).call(trial.workspace.name, working_memory_note, working_memory_note.bind(note=text))
    except _EXPECTED:
        return
    trial.took(text)


def served(trial: Trial) -> None:
    """The daemon dreams by itself and is killed under load: at random, at a change of the disk, while a model thinks.

    An agent's `dreamd mcp` outlives it. Between two kills the model is not asked the same twice.
    """
    rng = trial.rng
    trial.home.configure(dream={"interval_minutes": 1 / 120, "min_chunks": 1})
    with trial.reading(), trial.asking(slowly(good, 0.4)) as server, agent(trial, Harm()) as wire:
        for _ in range(rng.randint(1, 3)):
            harm, before = trial.harm("dream") if rng.random() < 0.5 else Harm(), server.count
            trial.torn = trial.torn or harm.blow is not None
            with serving(trial, harm=harm) as daemon:
                ending = time.monotonic() + rng.uniform(0.2, 4.0)
                while daemon.lives and time.monotonic() < ending:
                    _load(trial, wire)
                if rng.random() < 0.5:
                    trial.append()
                    until(lambda daemon=daemon, before=before: not daemon.lives or server.count > before)  # type: ignore[misc]
            asked = [json.dumps(one, sort_keys=True) for one in _settled(server)[before:]]
            demand(len(asked) == len(set(asked)), "the same was asked twice")
            trial.remember()
        with serving(trial) as daemon:
            _load(trial, wire)
            _ends_well(trial, daemon)
    trial.tally.kills -= 1  # the agent's end
    trial.home.configure(dream={"interval_minutes": 120, "min_chunks": 5})


def _settled(server: ScriptedModel) -> list[dict[str, Any]]:
    """What was asked; a busy machine reads late what somebody had sent who was killed."""
    count = -1
    while count != server.count:
        count = server.count
        time.sleep(0.3)
    return server.requests


def _load(trial: Trial, wire: Raw) -> None:
    what = trial.rng.random()
    if what < 0.3:
        note_over(trial, trial.home.socket)
    elif what < 0.6:
        trial.append()
    elif what < 0.7:
        trial.note()
    else:
        talk(trial, wire)
    time.sleep(trial.rng.uniform(0.0, 0.3))


def _ends_well(trial: Trial, daemon: Running) -> None:
    daemon.process.terminate()
    life = daemon.ended()
    demand(life.status in (0, -signal.SIGKILL), f"the daemon does not end well: {life}")


def two(trial: Trial) -> None:
    """Two daemons and the command line want one workspace; one of the daemons is killed or stopped, at random."""
    rng = trial.rng
    trial.home.configure(dream={"interval_minutes": 1 / 120, "min_chunks": 1})
    sockets = [trial.home.socket, trial.home.folder / "run" / "second.sock"]
    displaced = False
    with trial.reading(), ExitStack() as stack:
        daemons = [stack.enter_context(serving(trial, socket)) for socket in sockets]
        for _ in range(rng.randint(3, 8)):
            what = rng.random()
            if what < 0.5:
                note_over(trial, rng.choice(sockets)) if rng.random() < 0.5 else trial.append()
            elif what < 0.7:
                trial.dream(variables={"DREAMD_SOCKET": str(rng.choice(sockets))})
            elif what < 0.85:
                one = rng.choice(daemons)
                one.process.send_signal(signal.SIGSTOP)
                trial.tally.faults += one.is_stopped
                trial.append()
                if not displaced:  # where the other daemon has it, this waits for ten seconds
                    trial.dream(variables={"DREAMD_SOCKET": "/nonexistent"})
                displaced = True
                one.process.send_signal(signal.SIGCONT)
            else:
                rng.choice(daemons).process.kill()
            time.sleep(rng.uniform(0.0, 0.5))
            trial.remember()
    trial.home.configure(dream={"interval_minutes": 120, "min_chunks": 5})
