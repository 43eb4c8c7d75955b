"""Eight writers beside dreams: by the library, by the command, by a plain `>>` of two kinds."""

import signal
import subprocess
import sys
from contextlib import ExitStack

from tests.chaos.reader import reading
from tests.chaos.trial import Trial
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
"""
_ECHO = 'while read -r line; do echo "- $line" >> "$1/memory/scratch.md"; sleep 0.03; done < "$2"'
# The descriptor stays open while the file is written anew beside it.
_HELD = 'exec 3>>"$1/memory/scratch.md"; while read -r line; do echo "- $line" >&3; sleep 0.05; done < "$2"'
_COMMAND = 'while read -r line; do "$3" -m daemon note -w "$1" "$line" > "$2.said" || exit 1; done < "$2"'


def writers(trial: Trial) -> None:
    """None of them is killed; the dreams beside them are."""
    rng = trial.rng
    scripts = [_LIBRARY] * 3 + [_ECHO] * 2 + [_HELD] * 2 + [_COMMAND]
    with reading(trial), ExitStack() as stack:
        processes = []
        for number, script in enumerate(scripts):
            # So many that they write for some seconds: while several dreams begin.
            texts = trial.texts(4 if script is _COMMAND else rng.randint(20, 50))
            file = trial.folder / f"texts-{number}"
            file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            shell = [sys.executable, "-c", script] if script is _LIBRARY else ["sh", "-c", script, "sh"]
            words = [*shell, str(trial.workspace.root), str(file), sys.executable]
            variables = trial.home.environment()
            process = subprocess.Popen(words, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL)
            processes.append((stack.enter_context(process), texts))
        while any(process.poll() is None for process, _ in processes):
            what = rng.random()
            if what < 0.4:
                trial.dream(trial.harm("dream"))
            elif what < 0.6:
                trial.killed_at_random("dream", trial.workspace.root, seconds=1.5)
            else:
                trial.dream()
        for process, texts in processes:
            if process.wait() != 0:
                raise AssertionError(
                    f"a writer ended with {signal.strsignal(-process.returncode) or process.returncode}"
                )
            trial.took(*texts)
    trial.remember()
    trial.most_dreams = 10  # each takes in fifty
