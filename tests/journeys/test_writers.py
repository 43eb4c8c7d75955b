"""Nine writers append thousands of notes while dreams run: each becomes a crystal, once."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import NothingToDoError
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import Unavailable
from tests.support import lived
from tests.support.long_variants import variants

WRITE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from state.scratch import Note
from state.stores.history.inbox import NoteInbox
from daemon.workspace.adoption import open_workspace
inbox = NoteInbox(open_workspace(Path(sys.argv[1])))
for number in range(int(sys.argv[3])):
    inbox.append(Note(f"{sys.argv[2]} saw event {number}", datetime.now(UTC), 0.4))
"""
# As agents do it: two open the file for every line, two keep it open for fifty; one calls the command.
ECHO = 'i=0; while [ $i -lt "$3" ]; do echo "- $2 saw event $i" >> "$1"; i=$((i+1)); done'
HELD = (
    'i=0; while [ $i -lt "$3" ]; do exec 3>>"$1"; j=0; '
    'while [ $j -lt 50 ]; do echo "- $2 saw event $i" >&3; i=$((i+1)); j=$((j+1)); done; done'
)
COMMAND = (
    'i=0; while [ $i -lt "$3" ]; do "$4" -m daemon note -w "$1" "$2 saw event $i" > /dev/null || exit 1; '
    "i=$((i+1)); done"
)


def writers(workspace: Workspace, each: int, by_command: int) -> Iterator[tuple[str, int, list[str]]]:
    """(name, number of notes, command) of each."""
    root, scratch = str(workspace.root), str(workspace.scratch)
    for number in range(4):
        yield f"api{number}", each, [sys.executable, "-c", WRITE, root, f"api{number}", str(each)]
        script = HELD if number % 2 else ECHO
        yield f"shell{number}", each, ["sh", "-c", script, "sh", scratch, f"shell{number}", str(each)]
    words = ["sh", "-c", COMMAND, "sh", root, "command", str(by_command), sys.executable]
    yield "command", by_command, words


def dreamt(store: Store) -> bool:
    """One dream; whether there was anything to dream of."""
    try:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    except NothingToDoError:
        time.sleep(0.01)
        return False
    return True


@pytest.mark.full
@pytest.mark.parametrize("numbers", variants((150, 12), (500, 50)))
def test_the_notes_of_nine_writers_beside_dreams_are_each_a_crystal_once(
    tmp_path: Path, numbers: tuple[int, int]
) -> None:
    workspace = init_workspace(tmp_path / "agent")
    wanted: Counter[str] = Counter()
    dreams = 0
    with ExitStack() as stack:
        processes = []
        for name, number, command in writers(workspace, *numbers):
            wanted.update(f"{name} saw event {n}" for n in range(number))
            processes.append(stack.enter_context(subprocess.Popen(command)))
        store = stack.enter_context(open_exclusive(workspace, Config(), "test"))
        store.embedding = Embedding.given(Unavailable("4,000 vectors take a minute, and nothing depends on them"))
        while any(process.poll() is None for process in processes):
            dreams += dreamt(store)
        assert [process.returncode for process in processes] == [0] * 9
        time.sleep(1.1)  # a last line without its newline counts when the file has been quiet for a second
        while dreamt(store):
            dreams += 1
    assert dreams > 3
    crystals = lived.rows(workspace, "SELECT text, dreamt_in FROM crystals WHERE origin = 'scratch'")
    assert Counter(row["text"] for row in crystals) == wanted
    assert lived.pending(workspace) == []
    lived.assert_valid(workspace)
    noted = lived.rows(workspace, "SELECT text FROM notes JOIN crystals ON crystals.key = notes.crystal")
    assert Counter(row["text"] for row in noted) == wanted
    assert all(row["dreamt_in"] is not None for row in crystals)
