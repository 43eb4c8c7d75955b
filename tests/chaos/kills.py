"""Processes that are killed: at the nodes of a dream, at any change of the disk, at random times."""

import json
from pathlib import Path

from tests.chaos.harm import NODES, Blow, Harm
from tests.chaos.trial import Trial, demand
from tests.support import lived
from tests.support.model_characters import good

_DREAM_SECONDS, _COMMAND_SECONDS = 1.5, 0.8


def at_nodes(trial: Trial) -> None:
    """Dreams by a model are killed as they enter and leave each node, some again; nothing is paid twice."""
    rng, places = trial.rng, [Harm(Blow.KILL, node, leaving=leaving) for node in NODES for leaving in (False, True)]
    with trial.asking(good) as server, trial.reading():
        for place in rng.sample(places, len(places)):
            trial.append(rng.randint(3, 14))
            killed = trial.dream(place)
            demand(killed.killed, f"it was not killed: {killed}")
            trial.remember()
            if rng.random() < 0.3:
                trial.dream(rng.choice(places))
                trial.remember()
            while trial.dream().status == 0:
                pass
            demand(lived.calls(trial.workspace) == server.count, f"{server.count} calls, and the ledger has others")
        asked = [json.dumps(request, sort_keys=True) for request in server.requests]
        demand(len(asked) == len(set(asked)), "the same was asked twice")
        charged = lived.rows(trial.workspace, "SELECT sum(calls) FROM steps")[0][0]
        demand(charged == server.count, f"{server.count} calls, and the steps say {charged}")


def at_changes(trial: Trial) -> None:
    """Dreams are killed at any change of the disk, some in the middle of a write; SQLite's writes are among them."""
    for _ in trial.rounds((2, 4), (1, 5)):
        trial.dream(trial.harm("dream"))


def in_the_commit(trial: Trial) -> None:
    """The same in the commit alone, where MEMORY.md, scratch.md and state.db change hands."""
    for _ in trial.rounds((1, 3), (1, 4)):
        blow = trial.rng.choice((Blow.KILL, Blow.TORN))
        trial.dream(Harm(blow, "commit", call=trial.rng.randrange(60)))


def at_random(trial: Trial) -> None:
    """Dreams, restores, readings and passes are killed from outside at random times."""
    chat = transcript(trial)
    root = trial.workspace.root
    words: list[tuple[str | Path, ...]] = [
        ("dream", root), ("dream", root), ("restore", "1", "-w", root), ("ingest", chat, "-w", root),
        ("doctor", root),
    ]  # fmt: skip
    for _ in trial.rounds((2, 5), (1, 3)):
        command = trial.rng.choice(words)
        seconds = _DREAM_SECONDS if command[0] == "dream" else _COMMAND_SECONDS
        trial.killed_at_random(*command, seconds=seconds)
    trial.dreamd("ingest", chat, "-w", root)


def commands(trial: Trial) -> None:
    """Every other command that writes is killed at some change of the disk."""
    root = trial.workspace.root
    chat = transcript(trial)
    others: list[tuple[str | Path, ...]] = [
        ("restore", "1", "-w", root), ("ingest", chat, "-w", root), ("feel", "reward", "-w", root),
        ("doctor", root), ("init", root), ("search", "kettle", "-w", root),
    ]  # fmt: skip
    with trial.reading():
        for _ in range(trial.rng.randint(3, 7)):
            if trial.rng.random() < 0.5:
                trial.note(trial.harm("note"))
            else:
                command = trial.rng.choice(others)
                trial.dreamd(*command, harm=trial.harm(str(command[0])))
            trial.remember()
        trial.note()
    trial.dreamd("ingest", chat, "-w", root)


def transcript(trial: Trial) -> Path:
    """A conversation of which every turn is a fact, once it is read without being killed."""
    path = trial.folder / "chat.jsonl"
    number = trial.rng.randrange(1_000)
    texts = [f"Stone {number + 17 * n} of the old wall was carved by mason {n}" for n in range(12)]
    path.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts), encoding="utf-8")
    trial.facts = (*trial.facts, *texts)
    return path
