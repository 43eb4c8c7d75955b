"""Dreams that are killed at each of their nodes; a conversation to be read beside them."""

import json
from pathlib import Path

from tests.chaos.harm import NODES, Blow, Harm
from tests.chaos.trial import Trial, demand
from tests.support import lived
from tests.support.model_characters import good


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


def transcript(trial: Trial) -> Path:
    """A conversation of which every turn is a fact, once it is read without being killed."""
    path = trial.folder / "chat.jsonl"
    number = trial.rng.randrange(1_000)
    texts = [f"Stone {number + 17 * n} of the old wall was carved by mason {n}" for n in range(12)]
    path.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts), encoding="utf-8")
    trial.facts = (*trial.facts, *texts)
    return path
