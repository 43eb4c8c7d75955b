"""Models that answer dreams which die, that fail or lie; and a human who saves MEMORY.md whenever they like."""

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from state.document.sections import SectionName
from tests.chaos.harm import NODES, Blow, Harm
from tests.chaos.trial import Trial, demand
from tests.support import lived, model_characters
from tests.support.committing import added
from tests.support.scripted_model import Reply, Script, error


def at_nodes(trial: Trial) -> None:
    """Dreams by a model are killed as they enter and leave each node, some again; nothing is paid twice."""
    rng, places = trial.rng, [Harm(Blow.KILL, node, leaving=leaving) for node in NODES for leaving in (False, True)]
    with trial.asking(model_characters.good) as server, trial.reading():
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


_REPLIES: tuple[Script | Reply, ...] = (
    model_characters.good, model_characters.good, model_characters.good,
    *model_characters.HOSTILE,
    error(429, headers={"Retry-After": "0"}), error(500), error(400), error(401), Reply(reset=True),
    Reply(content='{"operations": [', stop_after=300), Reply(body=b"<html>welcome</html>", content_type="text/html"),
    Reply(body=b'{"choices": ['), Reply(content=None), Reply(content="late", wait_seconds=30.0),
)  # fmt: skip


def models(trial: Trial) -> None:
    """A model of which nobody knows what it answers next, and dreams that are killed while it thinks."""
    rng = trial.rng
    chance = random.Random(rng.random())

    def anything(request: dict[str, Any], number: int) -> Any:
        reply = chance.choice(_REPLIES)
        return reply if isinstance(reply, Reply) else reply(request, number)

    with trial.asking(anything) as server:
        trial.environment["DREAMD_MODEL__TIMEOUT_SECONDS"] = "1"
        trial.environment["DREAMD_LIMITS__WALL_SECONDS_PER_DREAM"] = "8"
        trial.environment["DREAMD_MODEL__ON_FAILURE"] = rng.choice(("keep", "keep", "extractive"))
        for _ in trial.rounds((1, 3), (2, 12)):
            before = lived.document(trial.workspace)
            if rng.random() < 0.4:
                trial.killed_at_random("dream", trial.workspace.root, seconds=3.0)
            else:
                life = trial.dream()
                failed = life.status in (1, 4)
                demand(not failed or lived.document(trial.workspace) == before, f"it failed, and wrote: {life}")
        trial.tally.faults += server.count
        # One that was given up before the server had read it is charged, for nobody knows; it has no answer.
        answers = lived.rows(trial.workspace, "SELECT count(*) FROM calls WHERE usable")[0][0]
        demand(answers <= server.count, f"{answers} answers in the ledger, {server.count} were given")


@dataclass(slots=True)
class Hand:
    """A human with MEMORY.md in an editor: reads it, thinks, adds a line, and saves."""

    trial: Trial
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    wrong: list[BaseException] = field(default_factory=list)

    def facts(self) -> list[str]:
        """The lines that must be there.

        A human who reads the file in the very moment in which their last save is being merged does not see it, and
        may save again without it: that deletes it, and the version that has it is in the history.
        """
        versions = [row["text"] for row in lived.versions(self.trial.workspace) if row["number"]]

        def deleted(number: int, line: str) -> bool:
            later = self.trial.by_hand[number + 1 :]
            return any(line not in save for save in later) and any(line in version for version in versions)

        return [line for number, line in enumerate(self.lines) if not deleted(number, line)]

    def edit(self) -> None:
        """One save, by renaming or in place, of what was read a while ago."""
        document = self.trial.workspace.document
        text = lived.document(self.trial.workspace)
        if "## The Bond" not in text:
            return
        time.sleep(self.rng.uniform(0.0, 0.3))
        line = f"By hand, line {len(self.lines) + 1}: a {self.rng.randrange(10**6)} zebra"
        section = self.rng.choice([name for name in SectionName if name is not SectionName.POINTERS])
        saved = added(text, line, section)
        self.trial.by_hand.append(saved)
        if self.rng.random() < 0.5:
            beside = document.with_name("MEMORY.md~")
            beside.write_text(saved, encoding="utf-8")
            beside.chmod(0o644)
            os.replace(beside, document)  # noqa: PTH105 - as an editor does
        else:
            self._in_place(saved)
        self.lines.append(line)

    def _in_place(self, saved: str) -> None:
        """Until the file that was written is the one that has the name: else they save again."""
        document = self.trial.workspace.document
        while True:
            with document.open("w", encoding="utf-8") as file:
                file.write(saved)
                file.flush()
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), document.stat()):
                        return


@contextmanager
def editing(trial: Trial) -> Iterator[Hand]:
    """A human at work, until the end of the block."""
    hand, ending = Hand(trial, random.Random(trial.rng.random())), threading.Event()

    def work() -> None:
        try:
            while not ending.wait(hand.rng.uniform(0.0, 0.8)):
                hand.edit()
        except BaseException as wrong:  # noqa: BLE001 - told at the end
            hand.wrong.append(wrong)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield hand
    finally:
        ending.set()
        thread.join()
        trial.tally.faults += len(hand.lines)
        trial.wrote(f"{len(hand.lines)} lines by hand")
    demand(not hand.wrong, f"the human: {hand.wrong}")
    trial.facts = (*trial.facts, *hand.facts())
