"""Real processes of `dreamd` that start in milliseconds: a server imports what is slow once, and forks.

`Forked` is a `subprocess.Popen` of `dreamd WORDS`: it has its own memory, its own limits and its own end, and may be
killed. What it does not show is the import of modules: the tests of cold starts, exit statuses and recipes start an
interpreter of their own. One server is there for all workers of a run; who needs it first starts it.
"""

import fcntl
import json
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, AnyStr

ROOT = Path(__file__).parents[2]
# The folder of this run's server: set by whoever begins the run, inherited by its workers.
FOLDER = "DREAMD_TESTS_FORKING"
_PATIENCE_SECONDS = 120.0
_EXECUTED = (  # the parameters of Popen._execute_child
    "args executable preexec_fn close_fds pass_fds cwd env startupinfo creationflags shell p2cread p2cwrite c2pread"
    " c2pwrite errread errwrite restore_signals gid gids uid umask start_new_session process_group"
).split()
_HEAVY = (
    "daemon.cli.bootstrap daemon.cli.diff daemon.cli.doctor daemon.cli.dream daemon.cli.export daemon.cli.feel"
    " daemon.cli.forget daemon.cli.history daemon.cli.init daemon.cli.ingest daemon.cli.mcp daemon.cli.mood"
    " daemon.cli.note daemon.cli.restore daemon.cli.review daemon.cli.search daemon.cli.session daemon.cli.status"
    " daemon.cli.why daemon.compose daemon.dreaming daemon.repairing daemon.takeover daemon.mcp_stdio daemon.running"
    " daemon.checkpoints daemon.operations daemon.http.app graphs.dream state.stores.vectors chromadb uvicorn"
    " langgraph.checkpoint.sqlite daemon.model re2 state.secrets.redaction openai httpx tiktoken onnxruntime"
).split()


class Forked(subprocess.Popen[AnyStr]):
    """`dreamd` with these words; the parameters are those of Popen.

    `before`: "module:function" and its arguments, called in the process before the command begins.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        before: tuple[str, Sequence[Any]] | None = None,
        **parameters: Any,
    ) -> None:
        self._before = before
        self._status: int = -1
        super().__init__([str(word) for word in words], **parameters)

    def _execute_child(self, *given: Any) -> None:
        child = dict(zip(_EXECUTED, given, strict=False))
        self._status, told = os.pipe()
        standard = [child["p2cread"], child["c2pwrite"], child["errwrite"]]
        nothing = os.open(os.devnull, os.O_RDONLY)
        fds = [fd if fd != -1 else number or nothing for number, fd in enumerate(standard)]
        request = {
            "words": child["args"],
            "environment": dict(os.environ if child["env"] is None else child["env"]),
            "folder": os.fspath(child["cwd"] or Path.cwd()),
            "session": bool(child["start_new_session"]),
            "umask": child["umask"],
            "before": self._before,
        }
        devnull = getattr(self, "_devnull", None)
        pairs = zip(standard, (child["p2cwrite"], child["c2pread"], child["errread"]), strict=True)
        ours = [fd for fd, other in pairs if -1 not in (fd, other) and fd != devnull]
        try:
            self.pid = _asked(json.dumps(request).encode(), [*fds, told])
        finally:
            for fd in (told, nothing, *ours, *([] if devnull is None else [devnull])):
                os.close(fd)
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        ready, _, _ = select.select([self._status], [], [], 0 if flags & os.WNOHANG else None)
        if not ready:
            return 0, 0
        said = os.read(self._status, 16)
        os.close(self._status)
        return self.pid, int(said) if said else signal.SIGKILL

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None:
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def run(
    words: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str],
    seconds: float = _PATIENCE_SECONDS,
    before: tuple[str, Sequence[Any]] | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """The command to its end. Raises TimeoutExpired, and kills it, when it takes longer."""
    process: Forked[bytes] = Forked(
        words,
        before=before,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    )
    with process:
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def limited(kind: int, most: int) -> None:
    """For `before`: a limit of setrlimit(2)."""
    resource.setrlimit(kind, (most, most))


def begin() -> str:
    """Begin a run: returns the folder of a server that nobody has started yet."""
    folder = tempfile.mkdtemp(prefix="dreamd-forking-", dir="/tmp")
    os.environ[FOLDER] = folder
    return folder


def end(folder: str) -> None:
    """End the server of a run, if there is one."""
    for name in ("pid", "socket", "lock", "said"):
        path = Path(folder, name)
        with suppress(FileNotFoundError):
            if name == "pid":
                os.killpg(int(path.read_text(encoding="ascii")), signal.SIGKILL)
            path.unlink()
    Path(folder).rmdir()


def _asked(request: bytes, fds: list[int]) -> int:
    """The number of the process that the server has forked for this."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_PATIENCE_SECONDS)
        line.connect(_server())
        socket.send_fds(line, [len(request).to_bytes(4, "big")], fds)
        line.sendall(request)
        said = line.recv(16)
    assert said, "the server of forked processes has died"
    return int(said)


def _server() -> str:
    folder = os.environ.get(FOLDER) or begin()
    path = Path(folder, "socket")
    with Path(folder, "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with Path(folder, "said").open("wb") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(path)],
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


def _serve(path: str) -> None:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    for name in _HEAVY:
        import_module(name)
    from daemon.litellm_loading import load_litellm

    litellm = load_litellm()
    with suppress(Exception):  # nobody answers there; what the first call loads is loaded
        messages = [{"role": "user", "content": "?"}]
        litellm.completion("openai/gpt-4o-mini", messages, api_base="http://127.0.0.1:9", api_key="k", timeout=2)
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        listening.bind(path + ".new")
        listening.listen(64)
        Path(path + ".new").rename(path)
        selector.register(listening, selectors.EVENT_READ)
        selector.register(waking, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listening:
                    line, _ = listening.accept()
                    with line:
                        _fork(line, children, (listening.fileno(), waking, woken))
                else:
                    os.read(waking, 4096)
                    _reap(children)


def _reap(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        told = children.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(told, str(status).encode())
        os.close(told)


def _fork(line: socket.socket, children: dict[int, int], own: tuple[int, ...]) -> None:
    head, fds, _, _ = socket.recv_fds(line, 4, 4)
    rest, request = int.from_bytes(head, "big"), b""
    while len(request) < rest and (more := line.recv(rest - len(request))):
        request += more
    asked = json.loads(request)
    *standard, told = fds
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
    """The command, in the child; does not return."""
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if asked["session"]:
            os.setsid()
        if asked["umask"] >= 0:
            os.umask(asked["umask"])
        for number, fd in enumerate(standard):
            os.dup2(fd, number)
        for fd in standard:
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


def _stream(fd: int, mode: str) -> IO[str]:
    errors = "surrogateescape" if fd == 0 else "backslashreplace" if fd == 2 else "strict"
    return open(fd, mode, encoding="utf-8", errors=errors, buffering=1 if fd == 2 else -1, closefd=False)


if __name__ == "__main__":
    _serve(sys.argv[1])
