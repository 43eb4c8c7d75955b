"""Where hostile workspaces are tried: a home with secrets, other folders beside, and a good workspace to spoil.

What must never happen is looked for after every command (`Watch`): code has run, a text from outside shows, a byte
outside has changed, a command did not end or ate the memory, a person is told to kill.
"""

import os
import re
import resource
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daemon.ingest.transcripts import absorb_transcripts
from daemon.sessions import Draft, add
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import utc_now
from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from tests.support import forked
from tests.support.committing import dreamt, opened
from tests.support.copies import copy_of
from tests.support.folders import PLACE
from tests.support.serving import Home

OUTSIDE = "zebra-of-the-other-house-7731"
MOST_KIB = 400 * 1024
# A command ends within so much of the processor's time, and does not wait for ever for something.
MOST_CPU_SECONDS, MOST_SECONDS = 12, 100.0
# Should it escape its watcher, it cannot eat the machine.
_LIMITS = ((resource.RLIMIT_FSIZE, 1 << 30), (resource.RLIMIT_DATA, 4 << 30), (resource.RLIMIT_CPU, MOST_CPU_SECONDS))
_LONG = 16 << 20
# Names with mode, size, time and content.
Found = dict[str, tuple[int, int, int, bytes]]
_ADVICE = re.compile(r"\bkill\b(?! -CONT)[^\n]*\d")


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended. `killed`: it did not end within its time. `kib`: by how much its memory grew."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str
    kib: int
    killed: bool


@dataclass(frozen=True, slots=True)
class House:
    """A folder of one test: `home` of the user, `outside` it, `ran` appears when code of a folder runs."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def secret(self) -> Path:
        return self.outside / "secret.md"

    @property
    def key(self) -> Path:
        return self.home / ".ssh" / "id_rsa"

    @property
    def session(self) -> Path:
        """A transcript that an agent's hook names."""
        return self.home / "session.md"

    @property
    def ran(self) -> Path:
        return self.folder / "ran"

    @property
    def workspace(self) -> Path:
        return self.folder / "w"

    def environment(self, **more: str) -> dict[str, str]:
        own = {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.folder / "no-cache"), "NO_PROXY": "127.0.0.1"}
        return Home(self.folder).environment(**{**own, **more})


def command(*words: str, environment: Mapping[str, str], stdin: str = "") -> Done:
    """`dreamd` with these words in a process of its own, to its end."""
    try:
        ended = forked.run(
            words,
            stdin=stdin.encode("utf-8", "surrogateescape"),
            environment=environment,
            seconds=MOST_SECONDS,
            before=("tests.support.forked:limited", _LIMITS),
            folder=Path(environment["HOME"]),
        )
    except subprocess.TimeoutExpired:
        return Done(words, -signal.SIGKILL, "", "", 0, killed=True)
    said, told = (text.decode("utf-8", "backslashreplace") for text in (ended.stdout, ended.stderr))
    return Done(words, ended.returncode, said, told, ended.kib, ended.returncode == -signal.SIGKILL)


@contextmanager
def house() -> Iterator[House]:
    """A new one, until the end of the block."""
    one = House(Path(tempfile.mkdtemp(prefix="dreamd-house-", dir=PLACE)))
    for path in (one.home / ".ssh", one.outside / "folder", one.home / "another", one.folder / "run"):
        path.mkdir(parents=True, mode=0o700)
    one.secret.write_text(f"- {OUTSIDE} of a file\n\n- Another line of the {OUTSIDE}\n", encoding="utf-8")
    (one.outside / "folder" / "talk.md").write_text(f"The {OUTSIDE} sleeps\n\nIt woke\n", encoding="utf-8")
    one.key.write_text(f"-----BEGIN {OUTSIDE}-----\nThe {OUTSIDE} is a key\n", encoding="utf-8")
    (one.home / "another" / "MEMORY.md").write_text(f"- The {OUTSIDE} of another workspace\n", encoding="utf-8")
    one.session.write_text("The session of the owner was about a stove\n", encoding="utf-8")
    (one.folder / "no-cache").touch()  # no model of embeddings: it takes a second, and a file in its place none
    try:
        yield one
    finally:  # deeper than `shutil.rmtree` can go
        subprocess.run(["rm", "-rf", one.folder], check=True)


def grown(folder: Path) -> Workspace:
    """A workspace that has lived, with one of everything; nobody has it open."""
    workspace = init_workspace(folder)
    (folder / "transcripts").mkdir()
    talk = folder / "transcripts" / "talk.md"
    talk.write_text("Ada said that the kettle of house 4 sings\n\nGrace oils the bicycle\n", encoding="utf-8")
    (folder / "GENOME.md").write_text("- Never write in capitals\n", encoding="utf-8")
    with opened(workspace) as store:
        dreamt(store, "The kettle of house 4 was repaired by Ada", "The garden gate squeaks", "Call the plumber")
        absorb_transcripts(store, [talk], utc_now())
        dreamt(store, "The piano was tuned by Grace", "The password hint was the second ship")
        add(store, "talk", Draft("The carpet is to be cleaned", "medium"), utc_now())
        forget(store, ForgetRequest("The password hint was the second ship"), utc_now())
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    NoteInbox(workspace).append(Note("The ladder stands behind the shed", utc_now(), 0.8))
    return workspace


def put(good: Path, house: House) -> Path:
    """A copy of it in this house, whose user's own it is."""
    return copy_of(good, house.workspace, house.environment()).root


def everything(folder: Path) -> Found:
    """Names, kinds, modes, sizes, times and (of short files) bytes of all that is below a folder."""
    found: Found = {}
    todo = [os.fsencode(folder)]
    while todo:
        for entry in os.scandir(todo.pop()):
            status, content = entry.stat(follow_symlinks=False), b""
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(entry.path)  # noqa: PTH115 - a name of bytes
            elif stat.S_ISREG(status.st_mode) and status.st_size < _LONG:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - a name of bytes
                    content = file.read()
            found[os.fsdecode(entry.path)] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found


class Watch:
    """What must not happen in a house, looked for from its making on."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._before = self._outside()

    def after(self, done: Done) -> list[str]:
        """What has happened that must not; empty when all is well."""
        faults = []
        if done.killed:
            faults.append("did not end")
        if done.kib > MOST_KIB:
            faults.append(f"took {done.kib // 1024} MiB")
        if done.status < 0:
            faults.append(f"died of signal {-done.status}")
        for what, text in (("stdout", done.out), ("stderr", done.err)):
            if OUTSIDE in text:
                faults.append(f"a text from outside on {what}")
            # What an agent reads at its start is not written for terminals, unless stdout is one.
            if "\x1b" in text and (what, done.words[0]) != ("stdout", "bootstrap"):
                faults.append(f"an escape sequence on {what}")
        faults += [word for word in ("Traceback", "a defect") if word in done.err]
        if (advice := _ADVICE.search(done.err + done.out)) is not None:
            faults.append(f"told to kill: {advice.group()}")
        return [f"dreamd {' '.join(done.words)}: {fault}: {done.err[-600:]}" for fault in [*faults, *self.now()]]

    def now(self) -> list[str]:
        faults = [] if not self._house.ran.exists() else ["code has run"]
        changed = _differences(self._before, self._outside())
        return [*faults, *(f"outside: {one}" for one in changed)]

    def _outside(self) -> Found:
        return everything(self._house.outside) | everything(self._house.home)


def _differences(before: Found, after: Found) -> list[str]:
    names = sorted(before.keys() | after.keys())
    return [f"{name} changed" for name in names if before.get(name) != after.get(name)]


def holding(folder: Path) -> set[str]:
    """The files below a folder in which a text from outside stands."""
    return {name for name, one in everything(folder).items() if OUTSIDE.encode() in one[3]}
