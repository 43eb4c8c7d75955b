"""Doors: the ways to dreamd, each of which sends an operation and yields the lines of its answer as JSON.

A line is `{"step": …}` or `{"notice": …}` while it works, and `{"reply": …}` at the end; errors are raised.
"""

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import DreamdError, LostError, NoDaemonError, error_of

if TYPE_CHECKING:
    from http.client import HTTPConnection

Lines: TypeAlias = Iterator[dict[str, Any]]

NOTE = "working_memory_note"
_CONNECT_SECONDS = 5.0
# They would name another project than the folder in which the program is run.
_OTHER_PROJECTS = ("DREAMD_WORKSPACE", "CLAUDE_PROJECT_DIR")


def socket_path(environment: Mapping[str, str]) -> Path:
    """Return $DREAMD_SOCKET, else the socket in $XDG_RUNTIME_DIR or /run/user/UID, else that in the state folder."""
    if named := environment.get("DREAMD_SOCKET"):
        return Path(named)
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    if not (runtime.startswith("/") and os.path.isdir(runtime)):  # noqa: PTH112 - Path.is_dir may raise here
        state = environment.get("XDG_STATE_HOME", "")
        runtime = (
            state if state.startswith("/") else str(Path(environment.get("HOME") or Path.home(), ".local/state"))
        )
    return Path(runtime, "dreamd", "dreamd.sock")


def connected(path: Path, seconds: float) -> "HTTPConnection":
    """Return a connection to the daemon at this socket. Raise NoDaemonError, and DreamdError for a stranger's."""
    from http.client import HTTPConnection  # late: a third of the import of this package

    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        there.settimeout(min(_CONNECT_SECONDS, seconds))
        there.connect(str(path))
        _require_own(there, path)
        there.settimeout(seconds)
    except OSError as error:  # also of a path that is too long, or a sandbox
        there.close()
        raise NoDaemonError(f"no daemon answers at {path} ({error})", "'dreamd serve' starts one") from error
    except DreamdError:
        there.close()
        raise
    connection = HTTPConnection("localhost", timeout=seconds)
    connection.sock = there
    return connection


def _require_own(there: socket.socket, path: Path) -> None:
    """Raise DreamdError unless this user or root listens there: anybody may make the folder of a missing daemon.

    Root may name another user's by DREAMD_SOCKET, in a folder that only root can have made.
    """
    if hasattr(socket, "SO_PEERCRED"):
        user = struct.unpack("3i", there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    else:
        user = path.parent.stat().st_uid
    is_named = os.geteuid() == 0 and os.environ.get("DREAMD_SOCKET")
    if user not in (0, os.geteuid()) and not (is_named and _was_made_by_root(path.parent.resolve(), user)):
        raise DreamdError(
            f"{path}: user {user} listens there, not you, so nothing was sent",
            "remove that socket and its folder, or set DREAMD_SOCKET to your own daemon's",
            code="STORAGE_ERROR",
        )


def _was_made_by_root(folder: Path, user: int) -> bool:
    """Return whether only root can have made this folder, perhaps for this user."""
    owners = {folder: (0, user), **dict.fromkeys(folder.parents, (0,))}
    places = ((one.stat(), allowed) for one, allowed in owners.items())
    return all(place.st_uid in allowed and not place.st_mode & 0o022 for place, allowed in places)


def over_http(
    connection: "HTTPConnection", path: str, fields: Mapping[str, Any], headers: Mapping[str, str]
) -> Lines:
    """Ask the daemon, and close the connection. Raise NoDaemonError, LostError and the daemon's errors."""
    from http.client import HTTPException

    own = {"Content-Type": "application/json", "Accept": "application/x-ndjson", "Connection": "close", **headers}
    with closing(connection):
        try:
            if connection.sock is None:
                connection.connect()
        except OSError as error:
            raise NoDaemonError(f"no daemon answers at {connection.host}:{connection.port} ({error})") from error
        try:
            connection.request("POST", path, json.dumps(fields).encode(), own)
            with connection.getresponse() as answer:
                for row in answer:
                    yield _line(row)
        except TimeoutError as error:
            raise LostError("the daemon does not answer: it is stopped, or overrun", "see 'dreamd status'") from error
        except (OSError, HTTPException, ValueError) as error:
            raise LostError("the daemon went while it worked", "see 'dreamd status', and try again") from error


def by_program(program: Sequence[str], folder: Path, operation: str, fields: Mapping[str, Any]) -> Lines:
    """Run the program `dreamd` in this folder. Raise NoDaemonError if there is none, and its errors."""
    import shutil
    import subprocess
    import tempfile

    found = shutil.which(program[0])
    if found is None:
        raise NoDaemonError(
            f"no daemon answers, and there is no program {program[0]!r}",
            "'uv tool install dreamd' installs it, 'dreamd serve' starts a daemon",
        )
    words, said = ["call", "--json", operation], json.dumps(fields)
    if operation == NOTE:  # the command of agents: it needs no database, and makes the memory of a new repository
        options = {"--importance": fields.get("importance"), "--replaces": fields.get("replaces")}
        given = [f"{name}={value}" for name, value in options.items() if value not in (None, "")]
        words, said = ["note", "--json", *given, "-"], str(fields["note"])
    environment = {name: value for name, value in os.environ.items() if name not in _OTHER_PROJECTS}
    with (
        tempfile.TemporaryFile() as problems,
        subprocess.Popen(  # noqa: S603 - a list of words, without a shell
            [found, *program[1:], *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=problems, cwd=folder, env=environment,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(said.encode("utf-8", "surrogatepass"))
        is_answered = False
        for row in process.stdout:
            try:
                line = _line(row)
            except ValueError:
                raise DreamdError(f"{found} does not answer as dreamd does", "name the program of dreamd") from None
            is_answered = True
            yield {"reply": line} if operation == NOTE else line
        process.wait()
        problems.seek(0)
        told = problems.read().decode(errors="replace").splitlines()
    if not is_answered:
        raise DreamdError(told[-1].removeprefix("dreamd: ") if told else f"{found} ended with {process.returncode}")
    yield from ({"notice": one.removeprefix("notice: ")} for one in told if one.startswith("notice: "))


def _line(row: bytes) -> dict[str, Any]:
    """Return a line of an answer. Raise the error that it is, and ValueError for what is no line."""
    line = json.loads(row)
    if not isinstance(line, dict):
        raise ValueError("no object")  # noqa: TRY004 - as json does
    if "error" in line:  # in a line of its own, or a whole answer
        raise error_of(line["error"] if isinstance(line["error"], dict) else line)
    return line
