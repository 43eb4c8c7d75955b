"""Where the daemon's own things are, and the token that nobody else can read."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from daemon.config.paths import (
    fits_socket,
    has_socket,
    is_everybodys,
    make_private_folder,
    program,
    read_or_make_token,
    socket_path,
    state_folder,
    token,
    token_path,
)
from state.errors import ConfigError, StorageError
from tests.support.running import ROOT

HOME = {"HOME": "/home/ada"}


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_state_is_where_xdg_says_or_below_home() -> None:
    for xdg, folder in (("/var/s", "/var/s"), ("s", "/home/ada/.local/state"), ("", "/home/ada/.local/state")):
        environment = {**HOME, "XDG_STATE_HOME": xdg}
        assert state_folder(environment) == Path(folder) / "dreamd"
        assert token_path(environment) == Path(folder) / "dreamd" / "token"
    assert state_folder(HOME) == Path("/home/ada/.local/state/dreamd")


def test_the_socket_is_where_the_variable_says_or_in_the_runtime_folder(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": "/var/s", "XDG_RUNTIME_DIR": str(tmp_path), "DREAMD_SOCKET": "/run/d.sock"}
    assert socket_path(environment) == Path("/run/d.sock")
    assert socket_path({**environment, "DREAMD_SOCKET": ""}) == tmp_path / "dreamd" / "dreamd.sock"
    for runtime in (str(tmp_path / "none"), os.path.relpath(tmp_path)):
        without = {**environment, "DREAMD_SOCKET": "", "XDG_RUNTIME_DIR": runtime}
        assert socket_path(without) == Path("/var/s/dreamd/dreamd.sock")
    usual = Path(f"/run/user/{os.geteuid()}")
    folder = usual / "dreamd" if usual.is_dir() else Path("/var/s/dreamd")
    assert socket_path({"XDG_STATE_HOME": "/var/s"}) == folder / "dreamd.sock"


def test_a_path_that_is_too_long_for_a_socket_has_no_daemon(tmp_path: Path) -> None:
    fits = "/" + "s" * 106
    assert fits_socket(Path(fits))
    for too_long in (fits + "s", "/" + "ä" * 54, "/" + "s" * 300):
        assert not fits_socket(socket_path({"DREAMD_SOCKET": too_long}))
        assert not has_socket(Path(too_long))
    deep = tmp_path / ("s" * 108)
    deep.touch()
    assert not has_socket(deep)
    assert has_socket(tmp_path)


def test_a_relative_socket_is_refused() -> None:
    with pytest.raises(ConfigError, match="give an absolute path"):
        socket_path({"DREAMD_SOCKET": "d.sock"})


def test_home_and_all_above_it_are_everybodys_and_what_is_below_is_not(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    for folder in (tmp_path / "home", tmp_path, *map(Path, ("/", "/tmp", "/etc", "/tmp/../tmp/", "/usr/local"))):  # noqa: S108
        assert is_everybodys(folder, environment)
    for folder in (tmp_path / "home" / "project", tmp_path / "homely", Path("/app")):
        assert not is_everybodys(folder, environment)


def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "dreamd" / "token"
    made = read_or_make_token(path)
    assert len(made) == 43
    assert read_or_make_token(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert {path.parent.stat().st_mode & 0o777, path.parent.parent.stat().st_mode & 0o777} == {0o700}
    assert [file.name for file in path.parent.iterdir()] == ["token"]
    assert read_or_make_token(tmp_path / "other") != made
    assert token({"XDG_STATE_HOME": str(tmp_path / "state")}) == made
    assert token({"XDG_STATE_HOME": str(tmp_path), "DREAMD_TOKEN": "a-token-of-my-own"}) == "a-token-of-my-own"
    assert not token_path({"XDG_STATE_HOME": str(tmp_path)}).exists()


def test_processes_that_make_a_token_at_once_agree_on_one(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from daemon.config.paths import read_or_make_token;"
        "print(read_or_make_token(Path(sys.argv[1])))"
    )

    def another(_: int) -> str:
        command = [sys.executable, "-c", script, str(tmp_path / "new" / "token")]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(another, range(8)))) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    read_or_make_token(path)
    path.chmod(mode)
    with pytest.raises(StorageError, match="others can read this token; run: rm"):
        read_or_make_token(path)


@pytest.mark.parametrize("content", ["", "\n", "short\n", "fifteen_letters"])
def test_a_token_that_is_too_short_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"needs 16 or more; remove it, and a new one is made"):
        read_or_make_token(path)
    with pytest.raises(ConfigError, match=r"DREAMD_TOKEN: .* needs 16 or more; unset it"):
        token({"DREAMD_TOKEN": content.strip()})


def test_what_is_no_file_is_no_token_and_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(StorageError, match="no regular file"):  # which is not waited for
        read_or_make_token(tmp_path / "token")
    folder = tmp_path / "dreamd"
    folder.mkdir()
    make_private_folder(folder)  # readable for others: its files have modes of their own
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="run: chmod 700"):
        read_or_make_token(folder / "token")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="no folder"):
        make_private_folder(tmp_path / "file")


def test_without_a_script_no_module_comes_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "daemon.py").write_text("print('of a cloned repository')")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    ran = subprocess.run([*program(), "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("dreamd ")
