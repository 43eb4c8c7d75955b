"""Everybody who writes beside dreams: agents over MCP, and eight writers by library, command and `>>`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.chaos.harm import Blow, Harm
from tests.chaos.trial import Trial, demand
from tests.daemon.mcp.agents import GoneError, Raw
from tests.support.running import ROOT


@contextmanager
def agent(trial: Trial, harm: Harm) -> Iterator[Raw]:
    """An agent with a `dreamd mcp` of its own, initialized unless it was killed before."""
    with trial.living("mcp", "-w", trial.workspace.root, harm=harm, piped=True) as one:
        with Raw(one.process, one.said.open("rb")) as wire:
            with suppress(GoneError):
                wire.greet()
            yield wire
        trial.ended(one)


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


def talk(trial: Trial, wire: Raw) -> None:
    """Note something, add an item to a session, or search."""
    what = trial.rng.random()
    if what < 0.5:
        (text,) = trial.texts(1)
        if not wire.call("working_memory_note", note=text).get("isError"):
            trial.took(text)
    elif what < 0.9:
        content = f"item {len(trial.items)} of {trial.rng.randrange(10**9)}"
        fields = {"session_id": "chat", "content": content, "priority": "critical"}
        if not wire.call("working_memory_add", **fields).get("isError"):
            trial.items.append(content)
        trial.most_dreams = 4
    else:
        wire.call("memory_search", query="Who repaired the kettle?")


_LIBRARY = """
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from state.scratch import Note
from state.stores.history.inbox import NoteInbox
from daemon.workspace.adoption import open_workspace
from state.stores.disk.workspace import Workspace
inbox = NoteInbox(open_workspace(Path(sys.argv[1])))
for line in Path(sys.argv[2]).read_text().splitlines():
    time.sleep(0.05)
    inbox.append(Note(line, datetime.now(UTC), 0.4))
    print("noted", flush=True)
"""
_ECHO = 'while read -r line; do echo "- $line" >> "$1/memory/scratch.md"; echo noted; sleep 0.03; done < "$2"'
# The descriptor stays open while the file is written anew beside it.
_HELD = (
    'exec 3>>"$1/memory/scratch.md"; while read -r line; do echo "- $line" >&3; echo noted; sleep 0.05; done < "$2"'
)
_COMMAND = 'while read -r line; do "$3" -m daemon note -w "$1" "$line" > "$2.said" || exit 1; echo noted; done < "$2"'


def writers(trial: Trial) -> None:
    """Three of them are killed, and dreams beside them; what a killed one had not said is there or not."""
    rng = trial.rng
    scripts = [_LIBRARY] * 3 + [_ECHO] * 2 + [_HELD] * 2 + [_COMMAND]
    with trial.reading(), ExitStack() as stack:
        processes = []
        for number, script in enumerate(scripts):
            # So many that they write for some seconds: while several dreams begin.
            texts = trial.texts(4 if script is _COMMAND else rng.randint(20, 50))
            file = trial.folder / f"texts-{number}"
            file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            shell = [sys.executable, "-c", script] if script is _LIBRARY else ["sh", "-c", script, "sh"]
            words = [*shell, str(trial.workspace.root), str(file), sys.executable]
            said = stack.enter_context(file.with_suffix(".noted").open("wb"))
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env=trial.home.environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                start_new_session=True,
            )
            processes.append((stack.enter_context(process), texts, file.with_suffix(".noted")))
        doomed = [process for process, _, _ in rng.sample(processes, 3)]
        while any(process.poll() is None for process, _, _ in processes):
            what = rng.random()
            if what < 0.4:
                trial.dream(trial.harm("dream"))
            elif what < 0.6:
                trial.killed_at_random("dream", trial.workspace.root, seconds=1.5)
            else:
                trial.dream()
            if doomed and (process := doomed.pop()).poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                trial.tally.kills, trial.torn = trial.tally.kills + 1, True
        for process, texts, noted in processes:
            demand(process.wait() in (0, -signal.SIGKILL), f"a writer ended with {process.returncode}")
            count = noted.read_text(encoding="utf-8").count("noted\n")
            demand(process.returncode or count == len(texts), f"a writer noted {count} of {len(texts)}")
            trial.took(*texts[:count])
    trial.remember()
    trial.most_dreams = 10  # each takes in fifty
