"""Eight writers beside dreams: by the library, by the command, by a plain `>>` of two kinds."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

from tests.chaos.trial import Trial, demand
from tests.support.running import ROOT

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
