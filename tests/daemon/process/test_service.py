"""The service of a user, by systemd and by launchd: installed, started, found again, removed without a trace."""

import json
import os
import plistlib
import subprocess
from pathlib import Path

import pytest

from daemon.process import launchd, service, systemd_unit
from state.errors import DreamdError, UsageError
from tests.support.serving import Home, until

# A manager that writes down what it is asked for, and knows whether the service is loaded.
MANAGER = """#!/bin/sh
echo "$@" >> "{place}/log"
case "$*" in {refuses}) echo "No such thing" >&2; exit 5;; esac
case "$*" in
    *enable\\ --now*) mkdir -p "{wants}" && ln -sf ../{unit} "{wants}/{unit}";;
    print\\ */dreamd) test -e "{place}/loaded";;
    bootstrap*) touch "{place}/loaded";;
    bootout*) rm "{place}/loaded";;
esac
"""
GUI = f"gui/{os.getuid()}"


class Manager:
    """A `systemctl` and a `launchctl` that come first in PATH."""

    def __init__(self, place: Path, wants: Path) -> None:
        self._place, self._wants = place, wants

    def refuse(self, pattern: str = "-") -> None:
        script = MANAGER.format(place=self._place, wants=self._wants, unit=systemd_unit.NAME, refuses=pattern)
        for name in ("systemctl", "launchctl"):
            (self._place / name).write_text(script)
            (self._place / name).chmod(0o755)

    def asked(self) -> list[str]:
        """Return what was asked since the last time, but whether there is a manager."""
        log = self._place / "log"
        rows = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [row for row in rows if row not in (f"print {GUI}", "--user show --property=Version")]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "DREAMD_CONFIG", "DREAMD_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home of ada"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(systemd_unit, "_PRIVATE", ())  # the folders of tests lie in /tmp
    return folder


@pytest.fixture
def manager(person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    one = Manager(tmp_path, person / ".config/systemd/user/default.target.wants")
    one.refuse()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return one


STARTED = {
    "linux": ["--user daemon-reload", "--user enable --now dreamd.service"],
    "macos": [f"print {GUI}/dreamd", f"enable {GUI}/dreamd", f"bootstrap {GUI} PATH"],
}
AGAIN = {"linux": STARTED["linux"], "macos": [f"print {GUI}/dreamd", f"kickstart {GUI}/dreamd"]}
CHANGED = {
    "linux": [*STARTED["linux"], "--user restart dreamd.service"],
    "macos": [f"print {GUI}/dreamd", f"bootout {GUI}/dreamd", f"enable {GUI}/dreamd", f"bootstrap {GUI} PATH"],
}
REMOVED = {
    "linux": ["--user disable --now dreamd.service", "--user daemon-reload"],
    "macos": [f"print {GUI}/dreamd", f"bootout {GUI}/dreamd"],
}


def on(rows: dict[str, list[str]], path: Path) -> list[str]:
    return [row.replace("PATH", str(path)) for row in rows["macos" if path.suffix == ".plist" else "linux"]]


@pytest.mark.usefixtures("platform")
def test_a_service_is_started_again_and_removed_and_nothing_is_left(manager: Manager, person: Path) -> None:
    assert (service.is_there(), service.remove(), manager.asked()) == (False, (), [])
    other = person / "other"
    other.mkdir()
    for folders, asked in (((), STARTED), ((), AGAIN), ((other,), CHANGED), ((), AGAIN)):
        path = service.install(folders).unit
        assert service.is_there()
        assert manager.asked() == on(asked, path)
    assert service.plan().workspaces == (other,)
    removed = service.remove()
    assert path in removed
    assert manager.asked() == on(REMOVED, path)
    other.rmdir()
    assert [one for one in person.rglob("*") if one.is_file() or one.is_symlink()] == []
    assert not (person / ".config/systemd").exists()
    assert service.remove() == ()


@pytest.mark.usefixtures("platform")
def test_without_a_manager_nothing_is_written_and_what_is_there_can_be_removed(
    manager: Manager, person: Path
) -> None:
    path = service.install().unit
    manager.refuse("*")
    assert path in service.remove()
    with pytest.raises(UsageError, match=r"does not run here for you \(No such thing\); run 'dreamd serve'"):
        service.install()
    assert not service.is_there()
    os.environ["PATH"] = "/nonexistent"  # the fixture puts it back
    with pytest.raises(UsageError, match=r"there is no .*ctl on this machine; run 'dreamd serve'"):
        service.install()
    assert [one for one in person.rglob("*") if one.is_file()] == []


@pytest.mark.usefixtures("platform")
def test_a_refusal_is_told_and_the_service_of_another_is_left(
    manager: Manager, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_BOOTSTRAP_SECONDS", 0)
    manager.refuse("*enable\\ --now*|bootstrap*")
    with pytest.raises(DreamdError, match=r"(enable --now dreamd\.service|bootstrap .*)': No such thing; see "):
        service.install()
    manager.refuse("*disable*|bootout*")
    service.install()
    with pytest.raises(DreamdError, match=r"(disable|bootout) .*: No such thing; stop the service yourself"):
        service.remove()
    path = service.service_path()
    path.write_text("[Service]\nExecStart=/usr/bin/other\n")
    with pytest.raises(UsageError, match=r"not written by dreamd|no agent of dreamd"):
        service.remove()
    assert path.exists()
    assert person in path.parents


def test_launchd_runs_a_daemon_with_its_keys_that_remembers(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What launchd would run, run: the whole life of a daemon without the calls that only Linux has."""
    root, other = home.folder / "agent", home.folder / "an agent"
    other.mkdir()
    for name, value in home.environment(_DREAMD_PORTABLE="1").items():
        monkeypatch.setenv(name, value)
    keys = service.keys_path()
    keys.write_text(
        f"# keys\nDREAMD_TIMEZONE=Europe/Berlin\nA-B=x\ntouch {tmp_path}/ran\nX=$(touch {tmp_path}/ran)\nPS4=a b"
    )
    values = plistlib.loads(service.plan([other]).text.encode())
    assert (values["Label"], values["KeepAlive"], values["Umask"]) == ("dreamd", {"SuccessfulExit": False}, 0o077)
    assert launchd.agent_path(home.folder) == home.folder / "Library/LaunchAgents/dreamd.plist"
    variables = {"HOME": str(home.folder), "_DREAMD_PORTABLE": "1", **values["EnvironmentVariables"]}
    assert "OPENAI_API_KEY" not in variables

    def dreamd(*words: str | Path) -> str:
        ended = home.dreamd(*words)
        assert ended.status == 0, (words, ended.err)
        return ended.out

    dreamd("init", root)
    with (home.folder / "said").open("ab") as log:
        daemon = subprocess.Popen(values["ProgramArguments"], env=variables, cwd="/", stdout=log, stderr=log)
    try:
        until(lambda: daemon.poll() is not None or home.socket.exists(), (home.folder / "said").read_text, 60)
        given = Path(f"/proc/{daemon.pid}/environ").read_text().split("\0")
        assert {"DREAMD_TIMEZONE=Europe/Berlin", f"X=$(touch {tmp_path}/ran)", "PS4=a b"} <= {*given}
        assert not (tmp_path / "ran").exists()
        dreamd("note", "-w", root, "Ada prefers tea over coffee", "--importance", "0.9")
        dreamd("dream", root)
        assert "Ada prefers tea" in (root / "MEMORY.md").read_text()
        assert "Ada prefers tea" in dreamd("search", "-w", root, "what does she drink?")
        kept = json.loads(dreamd("status", "--json"))["daemon"]["workspaces"]
        assert str(root) in [one["root"] for one in kept]
        second = home.dreamd("serve")
        assert (second.status, "a daemon listens here already" in second.err) == (5, True)
        elsewhere = home.dreamd("dream", root, DREAMD_SOCKET=str(home.folder / "none.sock"))
        assert (elsewhere.status, f"is held by process {daemon.pid}" in elsewhere.err) == (5, True)
    finally:
        daemon.terminate()
        assert daemon.wait(60) == 0
    assert not home.socket.exists()
