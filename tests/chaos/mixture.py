"""Everything at once: steps in an order that chance alone knows, each on what the ones before have left."""

import signal
from collections.abc import Callable  # noqa: TC003 - of a variable

from tests.chaos import owners, spoilt
from tests.chaos.harm import NODES, Blow, Harm
from tests.chaos.kills import transcript
from tests.chaos.moments import Hand
from tests.chaos.trial import Trial
from tests.support.serving import until

_DAY = 86_400.0


def mixture(trial: Trial) -> None:
    """Notes, dreams, restores, readings, edits, stops, damage and clocks, with harm in most of them."""
    rng, root = trial.rng, trial.workspace.root
    chat = transcript(trial)
    hand = Hand(trial, rng)

    def harmed(command: str) -> Harm:
        kind = rng.random()
        if kind < 0.35:
            return Harm()
        if kind < 0.7:
            return trial.harm(command)
        if kind < 0.85:
            return trial.harm(command, Blow.EIO, Blow.ENOSPC)
        return Harm(shift_seconds=rng.uniform(-20, 20) * _DAY)

    def noted() -> None:
        harm = harmed("note")
        life = trial.note(harm)
        trial.torn |= bool(life.status) and harm.lasting

    def in_a_node() -> None:
        trial.append()
        trial.dream(Harm(Blow.KILL, rng.choice(NODES), leaving=rng.random() < 0.5))

    def stopped() -> None:
        trial.append()
        with trial.living("dream", root, harm=trial.harm("dream", Blow.STOP)) as first:
            until(lambda: first.is_stopped or not first.lives)
            trial.dream()
            first.process.send_signal(signal.SIGCONT)
            trial.ended(first)

    def served() -> None:
        with owners.serving(trial):
            owners.note_over(trial, trial.home.socket)
            trial.dream()

    steps: dict[Callable[[], object], int] = {
        noted: 3,
        lambda: trial.append(rng.randint(1, 3)): 4,
        lambda: trial.dream(harmed("dream")): 6,
        in_a_node: 2,
        lambda: trial.killed_at_random("dream", root, seconds=1.5): 1,
        lambda: trial.dreamd("restore", str(rng.randint(1, 2)), "-w", root, harm=harmed("restore")): 1,
        lambda: trial.dreamd("ingest", chat, "-w", root, harm=harmed("ingest")): 1,
        lambda: trial.dreamd("feel", "reward", "-w", root, harm=harmed("feel")): 1,
        hand.edit: 2,
        stopped: 1,
        served: 1,
        lambda: spoilt.vectors(trial): 1,
        lambda: spoilt.checkpoints(trial): 1,
    }
    with trial.reading():
        for step in rng.choices(list(steps), list(steps.values()), k=rng.randint(5, 10)):
            step()
            trial.remember()
    trial.dreamd("ingest", chat, "-w", root)
    trial.facts = (*trial.facts, *hand.facts())
