"""Real processes of `dreamd` that start in milliseconds, forked by a server that imports slow modules once.

`Forked` is a `subprocess.Popen` of `dreamd WORDS`, with its own memory and limits, and can be killed. It does not
exercise the import of modules, so tests of cold starts, exit statuses and recipes start a new interpreter. All
workers of a run share one server, started at the first use. The server and its children end with the run, however
it ends.
"""

import ctypes
import fcntl
import gc
import json
import os
import resource
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, AnyStr

ROOT = Path(__file__).parents[2]
_MODULE = "tests.support.forked"
_SERVE, _STAND_IN = "serve", "dreamd"
# Variable with the folder of this run's server: set by the process that begins the run, inherited by its workers.
FOLDER = "TESTS_FORKING"
_SERVED: list[str] = []  # the server's folder, set in the server and its children
_PATIENCE_SECONDS = 300.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_ABOVE = 500  # above any descriptor that a test passes on
# linux/capability.h: without these capabilities, root obeys file permissions as other users do.
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH, _CAPABILITY_VERSION_3 = 1, 2, 0x20080522
_EXECUTED = (  # the parameters of Popen._execute_child
    "args executable preexec_fn close_fds pass_fds cwd env startupinfo creationflags shell p2cread p2cwrite c2pread"
    " c2pwrite errread errwrite restore_signals gid gids uid umask start_new_session process_group"
).split()


class Forked(subprocess.Popen[AnyStr]):
    """`dreamd` with these arguments; takes the parameters of Popen.

    `before`: "module:function" and its arguments (as JSON), called in the process before the command. `kib`: by how
    much its peak resident memory exceeds the server's, known once it has ended.
    """

    kib = 0

    def __init__(
        self, words: Sequence[str | Path], *, before: tuple[str, Sequence[Any]] | None = None, **parameters: Any
    ) -> None:
        self._before = before
        self._status: int = -1
        super().__init__([str(word) for word in words], **parameters)

    def _execute_child(self, *given: Any) -> None:
        child: dict[str, Any] = dict(zip(_EXECUTED, given, strict=False))
        self._status, told = os.pipe()
        standard: list[int] = [child["p2cread"], child["c2pwrite"], child["errwrite"]]
        nothing = os.open(os.devnull, os.O_RDONLY)
        fds: list[int] = [fd if fd != -1 else number or nothing for number, fd in enumerate(standard)]
        passed: list[int] = [int(fd) for fd in child["pass_fds"]]
        request = {
            "words": child["args"],
            "environment": dict(os.environ if child["env"] is None else child["env"]),
            "folder": os.fspath(child["cwd"] or Path.cwd()),
            "session": bool(child["start_new_session"]),
            "umask": child["umask"],
            "before": self._before,
            "passed": passed,
        }
        devnull: int | None = getattr(self, "_devnull", None)
        pairs = zip(standard, (child["p2cwrite"], child["c2pread"], child["errread"]), strict=True)
        ours: list[int] = [fd for fd, other in pairs if -1 not in (fd, other) and fd != devnull]
        try:
            self.pid = _asked(json.dumps(request).encode(), [*fds, *passed, told])
        finally:
            for fd in (told, nothing, *ours, *([] if devnull is None else [devnull])):
                os.close(fd)
        self._child_created = True

    @property
    def is_stopped(self) -> bool:
        """Return whether the process is stopped (SIGSTOP)."""
        with suppress(FileNotFoundError):
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
            return stat.rpartition(") ")[2][0] == "T"
        return False

    def _try_wait(self, flags: int) -> tuple[int, int]:
        ready, _, _ = select.select([self._status], [], [], 0 if flags & os.WNOHANG else None)
        if not ready:
            return 0, 0
        said = os.read(self._status, 64).split()
        os.close(self._status)
        if not said:  # the server has died, and its children with it
            return self.pid, signal.SIGKILL
        self.kib = int(said[1])
        return self.pid, int(said[0])

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(blocking=False):  # otherwise another thread waits for it
            try:
                pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            finally:
                lock.release()
        return self.returncode


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit status and output of a process, and its memory growth in KiB."""

    returncode: int
    stdout: bytes
    stderr: bytes
    kib: int


def run(
    words: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str],
    seconds: float = _PATIENCE_SECONDS,
    before: tuple[str, Sequence[Any]] | None = None,
    folder: Path = ROOT,
) -> Ended:
    """Run the command to its end; after `seconds`, kill its process group and raise TimeoutExpired."""
    process: Forked[bytes] = Forked(
        words,
        before=before,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    with process:
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Ended(process.returncode, out, err, process.kib)


def stand_in() -> tuple[list[str], dict[str, str]]:
    """Return a command that replaces `dreamd`, and a variable it needs, for programs that start `dreamd` themselves.

    It forks `dreamd` with its own stdin, stdout and stderr, forwards signals, and ends with the same status.
    """
    folder = os.environ.get(FOLDER) or begin()
    return [sys.executable, "-I", "-S", str(Path(__file__)), _STAND_IN], {FOLDER: folder}


def limited(*limits: tuple[int, int]) -> None:
    """Set limits by setrlimit(2), each a resource and its maximum; for `before`."""
    for kind, most in limits:
        resource.setrlimit(kind, (most, most))


def ticking(seconds: float) -> None:
    """Make a daemon check its workspaces every `seconds`, not twice a minute; for `before`."""
    for name in ("daemon.engine.managed", "daemon.engine.daemon", "daemon.process.run"):
        import_module(name).TICK_SECONDS = seconds  # type: ignore[attr-defined]


def unprivileged() -> None:
    """Make file permissions bind this process even if root runs the tests; for `before`."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # twice: effective, permitted, inheritable
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for number in (0, 1):  # access(2) checks the permitted set
        sets[number] &= ~(1 << _CAP_DAC_OVERRIDE | 1 << _CAP_DAC_READ_SEARCH) & 0xFFFFFFFF
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def begin() -> str:
    """Begin a run that lasts as long as this process; return the folder of its server, which is not started yet."""
    from daemon.workspace.vector_index import cache_folder  # late: the stand-in finds nothing of ours
    from tests.support.folders import PLACE

    folder = tempfile.mkdtemp(prefix="dreamd-forking-", dir=PLACE)
    Path(folder, "run").write_text(str(os.getpid()), encoding="ascii")
    Path(folder, "cache").write_text(str(cache_folder(os.environ)), encoding="utf-8")
    os.environ[FOLDER] = folder
    return folder


def end(folder: str) -> None:
    """End a run: kill its server, if one was started, and remove its folder."""
    with suppress(FileNotFoundError):
        os.kill(int(Path(folder, "pid").read_text(encoding="ascii")), signal.SIGKILL)
    shutil.rmtree(folder)
    del os.environ[FOLDER]


@contextmanager
def server() -> Iterator[None]:
    """Begin a run until the end of the block, unless this process is part of one already."""
    folder = None if FOLDER in os.environ else begin()
    try:
        yield
    finally:
        if folder:
            end(folder)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, so that a stopped run leaves nothing behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _asked(request: bytes, fds: list[int]) -> int:
    """Have the server fork a process for this request; return its pid."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_PATIENCE_SECONDS)
        line.connect(_server())
        socket.send_fds(line, [len(request).to_bytes(4, "big")], fds)
        line.sendall(request)
        said = line.recv(16)
    assert said, "the server of forked processes has died"
    return int(said)


def _server() -> str:
    folder = os.environ.get(FOLDER) or (_SERVED[0] if _SERVED else begin())
    path = Path(folder, "socket")
    with Path(folder, "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with Path(folder, "said").open("wb") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", _MODULE, _SERVE, folder],
                    cwd=ROOT,
                    env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1"},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            Path(folder, "pid").write_text(str(process.pid), encoding="ascii")
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not path.exists():
                assert process.poll() is None, Path(folder, "said").read_text(encoding="utf-8")
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.returncode = 0  # it lives until the end of the run: `end`
    return str(path)


# ------------------------------------------------------------------- the server


def _serve(folder: str) -> None:
    from tests.support import heavy  # late: the stand-in finds nothing of ours

    heavy.load(Path(Path(folder, "cache").read_text(encoding="utf-8")))
    _SERVED.append(folder)
    import_module("daemon.config.beside").start = Forked  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()  # children need not scan what exists already
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    run = os.pidfd_open(int(Path(folder, "run").read_text(encoding="ascii")))
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        path = Path(folder, "socket")
        listening.bind(f"{path}.new")
        listening.listen(64)
        Path(f"{path}.new").rename(path)

        def accept() -> None:
            line, _ = listening.accept()
            with line, suppress(ConnectionError):
                _fork(line, children, (listening.fileno(), waking, woken, run, selector.fileno()))

        def reap() -> None:
            os.read(waking, 4096)
            _reap(children)

        does: dict[int, Callable[[], None]] = {listening.fileno(): accept, waking: reap, run: sys.exit}
        for fd, do in does.items():
            selector.register(fd, selectors.EVENT_READ, do)
        while True:
            for key, _ in selector.select():
                key.data()


def _reap(children: dict[int, int]) -> None:
    own = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() // 1024
    while children:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if not pid:
            return
        told = children.pop(pid)
        with suppress(BrokenPipeError):  # its parent no longer waits
            os.write(told, f"{status} {usage.ru_maxrss - own}".encode())
        os.close(told)


def _fork(line: socket.socket, children: dict[int, int], own: tuple[int, ...]) -> None:
    """Fork a process for a client's request; do nothing if the client was killed before it had sent all of it."""
    head, fds, _, _ = socket.recv_fds(line, 4, 6)
    length = int.from_bytes(head, "big")
    request = line.recv(length or 1, socket.MSG_WAITALL)
    if not 0 < length == len(request):
        for fd in fds:
            os.close(fd)
        return
    asked, (*standard, told) = json.loads(request), fds
    child = os.fork()
    if child == 0:
        for fd in (*own, told, *children.values(), line.fileno()):
            os.close(fd)
        _become(asked, standard)
    children[child] = told
    for fd in standard:
        os.close(fd)
    line.sendall(str(child).encode())


def _become(asked: dict[str, Any], standard: list[int]) -> None:
    """Run the command in the child, and exit."""
    try:
        die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored if the run is in the background
        if asked["session"]:
            os.setsid()
        if asked["umask"] >= 0:
            os.umask(asked["umask"])
        for number, fd in zip((0, 1, 2, *asked["passed"]), _out_of_the_way(standard), strict=True):
            os.dup2(fd, number)
            os.close(fd)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        time.tzset()
        sys.argv = ["dreamd", *asked["words"]]
        sys.stdin = _stream(0, "r")
        sys.stdout = _stream(1, "w")
        sys.stderr = _stream(2, "w")
        if asked["before"]:
            where, arguments = asked["before"]
            module, _, name = where.partition(":")
            getattr(import_module(module), name)(*arguments)
        from daemon.cli import main

        status = main(asked["words"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _out_of_the_way(fds: list[int]) -> list[int]:
    """Move descriptors to numbers that are no target of the following dup2 calls."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, _ABOVE) for fd in fds]
    for fd in fds:
        os.close(fd)
    return moved


def _stream(fd: int, mode: str) -> IO[str]:
    errors = "surrogateescape" if fd == 0 else "backslashreplace" if fd == 2 else "strict"
    return open(fd, mode, encoding="utf-8", errors=errors, buffering=1 if fd == 2 else -1, closefd=False)


def _stand_in(words: Sequence[str]) -> None:
    process: Forked[bytes] = Forked(words, stdin=0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: process.send_signal(number))
    status = process.wait()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    _serve(sys.argv[2]) if sys.argv[1] == _SERVE else _stand_in(sys.argv[2:])
