"""Everything at once: steps in an order that chance alone knows, each on what the ones before have left."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from tests.chaos import owners, spoilt
from tests.chaos.harm import NODES, NONE, Blow, Harm
from tests.chaos.moments import editing
from tests.chaos.trial import Trial, demand
from tests.support import lived

_DAY = 86_400.0
_DAYS = (-3_650, -400, -20, -1, -0.1, 0.05, 1, 20, 500)
_COMMANDS = ("restore 1", "restore 2", "ingest", "feel reward", "doctor", "init", "search kettle")


def mixture(trial: Trial) -> None:
    """Notes, dreams, commands, stops, damage and a human, with harm in most of them."""
    chat = _transcript(trial)
    with trial.reading(), editing(trial) if trial.rng.random() < 0.3 else nullcontext():
        for step in trial.rng.choices(list(_STEPS), list(_STEPS.values()), k=trial.rng.randint(5, 10)):
            trial.append(trial.rng.randint(0, 3))
            step(trial)
            trial.remember()
    trial.dreamd("ingest", chat, "-w", trial.workspace.root)


def _transcript(trial: Trial) -> Path:
    """A conversation of which every turn is a fact, once it is read without being killed."""
    path = trial.folder / "chat.jsonl"
    number = trial.rng.randrange(1_000)
    texts = [f"Stone {number + 17 * n} of the old wall was carved by mason {n}" for n in range(12)]
    path.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts), encoding="utf-8")
    trial.facts = (*trial.facts, *texts)
    return path


def _harmed(trial: Trial, command: str) -> Harm:
    """Death or a failing disk at any change of it, of a dream often in its commit; a wrong clock; or nothing."""
    rng, kind = trial.rng, trial.rng.random()
    if kind < 0.2:
        return NONE
    if kind < 0.4 and command == "dream":
        return Harm(rng.choice((Blow.KILL, Blow.TORN)), "commit", call=rng.randrange(60))
    if kind < (0.4 if command == "note" else 0.6):
        return trial.harm(command)
    if kind < 0.85:
        return trial.harm(command, Blow.EIO, Blow.ENOSPC)
    trial.tally.faults += 1
    return Harm(shift_seconds=rng.choice(_DAYS) * rng.uniform(0.5, 1.0) * _DAY)


def _notes(trial: Trial) -> None:
    harm = _harmed(trial, "note")
    life = trial.note(harm)
    if life.status and harm.lasting:
        trial.torn = True  # what was written could not be blanked either
    elif life.status > 0:
        demand(trial.tried[-1] not in lived.pending(trial.workspace), f"refused, and in the log: {life}")


def _dreams(trial: Trial) -> None:
    trial.dream(_harmed(trial, "dream"))


def _commands(trial: Trial) -> None:
    command, *rest = trial.rng.choice(_COMMANDS).split()
    files = [trial.folder / "chat.jsonl"] if command == "ingest" else []
    trial.dreamd(command, *rest, *files, "-w", trial.workspace.root, harm=_harmed(trial, command))


def _dies_in_a_node(trial: Trial) -> None:
    trial.dream(Harm(Blow.KILL, trial.rng.choice(NODES), leaving=trial.rng.random() < 0.5))


def _dies_at_random(trial: Trial) -> None:
    command = trial.rng.choice(("dream", "dream", "restore 1", "doctor")).split()
    trial.killed_at_random(*command, "-w", trial.workspace.root, seconds=1.5)


def _is_served(trial: Trial) -> None:
    with owners.serving(trial):
        owners.note_over(trial, trial.home.socket)
        trial.dream()


_STEPS: dict[Callable[[Trial], object], int] = {
    _notes: 6, _dreams: 8, _commands: 5, _dies_in_a_node: 2, _dies_at_random: 2, _is_served: 1, owners.fenced: 2,
    spoilt.vectors: 1, spoilt.checkpoints: 1,
}  # fmt: skip
