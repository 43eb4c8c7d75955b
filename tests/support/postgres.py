"""A real PostgreSQL server for tests, which can be killed and restarts with everything it acknowledged.

`Postgres` is the server. The fixture `postgres` is one server per worker of the run, `database_url` a database on it
for one test. Without PostgreSQL these tests are skipped; in continuous integration they fail. This file is also the
program that stops a server and removes its folder once the process that started it has ended, however it ended.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

if __name__ != "__main__":  # the program cannot import our modules, and needs none
    import pytest

    from tests.support.folders import PLACE, files_below
    from tests.support.ports import free_port

_INSTALLED = Path("/usr/lib/postgresql")  # Debian: one folder per version
_MISSING = "there is no PostgreSQL server on this machine (Debian: apt-get install postgresql)"
_PATIENCE_SECONDS = 120.0
_GRACE_SECONDS = 2.0
_ADMINISTRATOR, _USER = "postgres", "dreamd"
# With these, commits survive the death of the server but not of the machine.
_HASTY = {"fsync": "off", "full_page_writes": "off"}
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_naptime": "10s",
    # Kept in the server's own folder, so that a killed server leaves nothing elsewhere.
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "warning",
}


class Postgres:
    """A server at one port of 127.0.0.1, from `start` to `close`; in between it can be killed and restarted.

    Its databases belong to a user who is no administrator.
    """

    def __init__(
        self, *, durable: bool = True, place: str = "", settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`place`: the parent folder, on the disk to use. `settings` override the default ones."""
        self.port = free_port()
        self._place = place or PLACE
        self._settings = {**_SETTINGS, **({} if durable else _HASTY), **settings}
        self._password = secrets.token_urlsafe(16)
        self._folder: Path | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._templates: dict[Callable[[str], object], str] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Return the URL of a database that always exists."""
        return self.url_of(_ADMINISTRATOR)

    def url_of(self, database: str, *, user: str = _USER) -> str:
        return f"postgresql://{user}:{self._password}@127.0.0.1:{self.port}/{database}"

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start or restart it, and wait until it answers."""
        assert not self.lives, "it runs already"
        begins = self._folder is None
        folder = self._folder = self._folder or self._made()
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        options += ["-c", f"port={self.port}", "-c", f"unix_socket_directories={folder}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [binaries() / "postgres", "-D", folder / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user(),
            )
        self._wait_for_answer()
        if begins:
            self._execute(f"CREATE ROLE {_USER} LOGIN CREATEDB PASSWORD '{self._password}'", user=_ADMINISTRATOR)

    def kill(self) -> None:
        """Kill it and all its processes, as a power cut would."""
        assert self._process is not None, "it was never started"
        self._process.kill()
        self._process.wait(_PATIENCE_SECONDS)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while left := _processes(self._data):
            assert time.monotonic() < deadline, f"processes {left} of PostgreSQL live on"
            _signal(left, signal.SIGKILL)
            time.sleep(0.005)

    def close(self) -> None:
        """Stop it for good, and remove its folder."""
        if self._keeper is not None:
            with self._keeper as keeper:
                assert keeper.stdin is not None
                keeper.stdin.close()
                keeper.wait(_PATIENCE_SECONDS)
        if self._process is not None:
            self._process.wait(_PATIENCE_SECONDS)
        self._keeper = self._process = self._folder = None
        self._templates.clear()

    def new_database(self, prepare: Callable[[str], object] | None = None) -> str:
        """Create a database and return its URL; empty, or filled by `prepare(url)`.

        `prepare` is called once per server and must leave no connection open; further databases are copies.
        """
        if prepare is None:
            return self._created("template1")
        if prepare not in self._templates:
            url = self._created("template1")
            prepare(url)
            self._templates[prepare] = url.rpartition("/")[2]
        return self._created(self._templates[prepare])

    def drop_database(self, url: str) -> None:
        """Drop a database, cutting off its connections."""
        # As the administrator, because only that user can end an autovacuum that may be running there.
        self._execute(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)', user=_ADMINISTRATOR)

    def rooms_with(self, text: str) -> set[str]:
        """Return the folders of the cluster (base, pg_wal …) in which a file has this text, after a checkpoint."""
        self.checkpoint()
        found = set[str]()
        for path in files_below(self._data):
            with suppress(FileNotFoundError):
                if text.encode() in path.read_bytes():
                    found.add(path.relative_to(self._data).parts[0])
        return found

    def checkpoint(self) -> None:
        self._execute("CHECKPOINT", user=_ADMINISTRATOR)

    def _created(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url_of(name)

    @property
    def _data(self) -> Path:
        assert self._folder is not None, "it was never started"
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._data.with_name("log")

    def _made(self) -> Path:
        """Create a folder of the server's user with a new cluster, and the process that will remove it."""
        programs = binaries()
        folder = Path(tempfile.mkdtemp(prefix="dreamd-pg-", dir=self._place))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        if user := _user():
            os.chown(folder, user.pw_uid, user.pw_gid)
        password = folder / "password"
        password.write_text(self._password)
        password.chmod(0o644)  # only the server's user can enter its folder
        words = ["--no-sync", "--no-locale", "--encoding=UTF8", "--wal-segsize=4", "--auth=scram-sha-256"]
        done = subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", _ADMINISTRATOR, f"--pwfile={password}", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            **(self._as_user(folder)),
        )
        assert done.returncode == 0, done.stderr.decode()
        return folder

    def _as_user(self, folder: Path | None = None) -> dict[str, Any]:
        """Return parameters for Popen; as root, run as nobody, because PostgreSQL refuses root."""
        where = {"cwd": folder or self._folder, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}}
        user = _user()
        return where | ({"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {})

    def _wait_for_answer(self) -> None:
        import psycopg

        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            assert self.lives, f"PostgreSQL did not start: {self._log.read_text(errors='replace')[-2000:]}"
            try:
                psycopg.connect(self.url_of(_ADMINISTRATOR, user=_ADMINISTRATOR), connect_timeout=5).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, self._log.read_text(errors="replace")[-2000:]
                time.sleep(0.02)
            else:
                return

    def _execute(self, statement: str, user: str = _USER) -> None:
        import psycopg

        with psycopg.connect(self.url_of(_ADMINISTRATOR, user=user), autocommit=True) as connection:
            connection.execute(statement.encode())


def binaries() -> Path:
    """Return the folder of the newest PostgreSQL's programs; without one, skip the test, or fail it in CI."""
    found = [path.parent for path in _INSTALLED.glob("*/bin/postgres") if _is_number(path)]
    if not found and (elsewhere := shutil.which("postgres")):
        return Path(elsewhere).resolve().parent
    if not found:
        missing = pytest.fail if os.environ.get("CI", "").lower() in {"1", "true"} else pytest.skip
        missing(_MISSING)
    return max(found, key=lambda path: int(path.parent.name))


def _is_number(program: Path) -> bool:
    return program.parents[1].name.isdigit()


def _user() -> pwd.struct_passwd | None:
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


if __name__ != "__main__":

    @pytest.fixture(scope="session")
    def postgres() -> Iterator[Postgres]:
        """The server of this worker, for databases; tests must not kill it."""
        with Postgres(durable=False) as server:
            yield server

    @pytest.fixture
    def database_url(postgres: Postgres) -> Iterator[str]:
        """An empty database of this test's own."""
        url = postgres.new_database()
        yield url
        postgres.drop_database(url)


# ------------------------------------------------------------------- the program that stops a server


def _processes(folder: Path) -> list[int]:
    """Return the processes with a working directory in this folder, which only a server's processes have."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if link.readlink().is_relative_to(folder):
                found.append(int(link.parent.name))
    return found


def _signal(processes: list[int], number: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _keep(folder: Path) -> None:
    """Wait until the parent process has ended; then end the processes in the folder, and remove it."""
    sys.stdin.buffer.read()
    began = time.monotonic()
    _signal(_processes(folder), signal.SIGQUIT)  # immediate, but frees its shared memory
    while left := _processes(folder):
        if time.monotonic() > began + _GRACE_SECONDS:
            _signal(left, signal.SIGKILL)
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
