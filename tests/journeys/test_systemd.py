"""What systemd says of the units, and the service under a systemd of its own in namespaces.

There nothing of this machine can be changed: what is to be written lies in memory, the disk is read-only, and systemd
knows no units but those of the test.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.process import systemd_unit
from tests.support.running import ROOT, Ended
from tests.support.serving import until

SYSTEMD = Path("/lib/systemd/systemd")
ACCOUNT = "nobody"
_BOOT = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir /run/kept /run/units
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir /run/kept/$number
    mount --bind "$path" /run/kept/$number
    mount -o remount,bind,ro /run/kept/$number
done
# First nothing may be written anywhere; then there is memory to write in.
mount -o remount,bind,ro /
for folder in /tmp /var/tmp /var/lib /var/log /dev/shm /srv /etc/systemd/system /root /home /mnt; do
    mount -t tmpfs -o mode=0755 tmpfs "$folder"
done
chmod 1777 /tmp /var/tmp /dev/shm
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir -p "$path" 2>/dev/null || true
    mount --bind /run/kept/$number "$path"
done
mkdir -p /tmp/etc/dreamd && cp -a /etc/. /tmp/etc/ && mount --bind /tmp/etc /etc
for name in sysinit basic shutdown network multi-user; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > /run/units/$name.target
done
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
umount --recursive /sys/fs/cgroup 2>/dev/null || true
mount -o remount,bind,ro /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export container=dreamd-test SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/units
exec /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=0
"""

_ACCOUNTS = (
    *("setpriv", f"--reuid={ACCOUNT}", "--regid=nogroup", "--clear-groups", "env", "XDG_STATE_HOME=/var/lib"),
    "XDG_DATA_HOME=/var/lib",
    *("DREAMD_SOCKET=/run/dreamd/dreamd.sock", "HOME=/var/lib/dreamd", sys.executable, "-m", "daemon"),
)
# Below these there is memory alone.
_HIDDEN = ("/tmp/", "/var/tmp/", "/dev/shm/", "/root/", "/home/", "/srv/")  # noqa: S108


@dataclass(frozen=True, slots=True)
class Machine:
    """A systemd that runs, by the number of its process here."""

    pid: int

    def root(self, *words: str | Path) -> Ended:
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--wd=/"]
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        done = subprocess.run(
            [*inside, "--", *map(str, words)],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def must(self, *words: str | Path) -> str:
        ended = self.root(*words)
        assert ended.status == 0, (words, ended.out, ended.err)
        return ended.out

    def dreamd(self, *words: str | Path) -> Ended:
        return self.root(*_ACCOUNTS, *words)

    def shows(self, name: str) -> str:
        return self.must("systemctl", "show", "--property", name, "--value", "dreamd").strip()


def refused() -> str:
    """Why there can be no such systemd here; "" where there can."""
    if os.geteuid() != 0:
        return "only root can make the namespaces"
    missing = [name for name in ("unshare", "nsenter", "setpriv", "systemctl") if shutil.which(name) is None]
    if missing or not SYSTEMD.exists():
        return f"{', '.join(missing) or 'systemd'} is not here"
    tried = "mount --make-rprivate / && mount -o remount,bind,ro / && mount -t cgroup2 c /mnt"
    made = subprocess.run([*_UNSHARE, "sh", "-c", tried], capture_output=True, text=True, check=False)
    return made.stderr.strip() and f"the namespaces cannot be made: {made.stderr.strip()}"


_UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--ipc", "--uts"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if why := refused():
        pytest.skip(why)
    with booted(tmp_path / "console") as one:
        yield one


@contextmanager
def booted(console: Path) -> Iterator[Machine]:
    # An editable installation is where the checkout is; its Python may be in a home that is closed to others.
    kept = dict.fromkeys(str(Path(one).resolve()) for one in (ROOT, sys.prefix, sys.base_prefix))
    outer = [one for one in kept if not any(one != other and one.startswith(f"{other}/") for other in kept)]
    needed = [one for one in outer if one.startswith(_HIDDEN)]
    with console.open("wb") as said:
        outside = subprocess.Popen(
            [*_UNSHARE, "sh", "-c", _BOOT, "boot", *needed], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        until(lambda: outside.poll() is not None or children.read_text().split(), console.read_text)
        assert outside.poll() is None, console.read_text()
        machine = Machine(int(children.read_text().split()[0]))
        until(
            lambda: (
                outside.poll() is not None or machine.root("systemctl", "is-active", "basic.target").out == "active\n"
            ),
            console.read_text,
        )
        assert outside.poll() is None, console.read_text()
        yield machine
    finally:
        outside.kill()  # and with it everything in there
        outside.wait()


@pytest.mark.full
def test_the_service_is_kept_as_systemd_keeps_it(machine: Machine) -> None:
    assert machine.root("touch", "/usr/of-a-test").status != 0  # nothing of this machine is in reach
    machine.must("install", "--directory", f"--owner={ACCOUNT}", "--mode=0700", "/srv/agent")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        asked = f"DREAMD_MODEL__NAME=openai/gpt-4o-mini\nDREAMD_MODEL__API_BASE=http://127.0.0.1:{silent.getsockname()[1]}\n"
        settings = f"{asked}OPENAI_API_KEY=sk-of-a-test\nDREAMD_HTTP__PORT=0\n"
        machine.must(
            "sh", "-c", f"mkdir -p /etc/dreamd && printf '{settings}' > /etc/dreamd/environment".replace("\n", "\\n")
        )
        _is_installed_and_looks_after_its_workspace(machine)
        _comes_back_after_a_kill(machine)
        _refuses_a_bad_configuration_and_goes_on(machine)
        _stops_at_once_in_the_middle_of_a_dream(machine, silent)


def _is_installed_and_looks_after_its_workspace(machine: Machine) -> None:
    words = f"-m daemon install-service --system --user {ACCOUNT} /srv/agent --now --json".split()
    said = json.loads(machine.must("env", f"PYTHONPATH={ROOT}", sys.executable, *words))
    assert (said["started"], said["next"]) == (True, [])
    assert not [one for one in said["notices"] if "/srv/agent" in one]
    assert machine.shows("ActiveState") == "active"
    assert machine.must("stat", "--format=%U", "/srv/agent/.dreamd").strip() == ACCOUNT
    (kept,) = json.loads(machine.dreamd("status", "--json").out)["daemon"]["workspaces"]
    assert (kept["root"], kept["problem"]) == ("/srv/agent", None)
    until(lambda: "1 workspace" in machine.shows("StatusText"), lambda: machine.shows("StatusText"))


def _comes_back_after_a_kill(machine: Machine) -> None:
    before = machine.shows("MainPID")
    machine.must("systemctl", "kill", "--signal=SIGKILL", "--kill-whom=main", "dreamd")
    until(lambda: machine.shows("MainPID") not in (before, "0") and machine.shows("ActiveState") == "active")
    assert machine.shows("NRestarts") == "1"


def _refuses_a_bad_configuration_and_goes_on(machine: Machine) -> None:
    machine.must("sh", "-c", "echo 'dream: {mode: never}' > /etc/dreamd/config.yaml")
    before = machine.shows("MainPID")
    machine.must("systemctl", "reload", "dreamd")
    until(lambda: "refused" in machine.dreamd("status", "--json").out)
    assert (machine.shows("MainPID"), machine.shows("ActiveState")) == (before, "active")
    machine.must("rm", "/etc/dreamd/config.yaml")
    machine.must("systemctl", "reload", "dreamd")


def _stops_at_once_in_the_middle_of_a_dream(machine: Machine, silent: socket.socket) -> None:
    noted = machine.dreamd("note", "-w", "/srv/agent", "Ada prefers tea", "--importance", "0.9")
    assert noted.status == 0, noted.err
    machine.must("sh", "-c", f"{shlex.join(_ACCOUNTS)} dream /srv/agent > /dev/null 2>&1 &")
    waiting, _ = silent.accept()  # the model is asked, and does not answer
    with waiting:
        begin = time.monotonic()
        machine.must("systemctl", "stop", "dreamd")
        spent = time.monotonic() - begin
    assert machine.shows("Result") == "success"
    limit = float(re.sub(r"\D", "", machine.shows("TimeoutStopUSec")))
    assert spent < limit
    assert "Ada prefers tea" in machine.dreamd("bootstrap", "/srv/agent").out  # without a daemon the note waits


ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 3.0


def analyzed(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # For a user it looks for the folder of the session.
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    return subprocess.run(
        [ANALYZE or "", "--no-pager", *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )


def written(tmp_path: Path, scope: str) -> Path:
    """The unit of that scope as a file. Its paths are hard to write, and some of them are not there."""
    workspaces = [Path("/srv/an agent's, 100%"), Path('/srv/"quoted" $HOME'), Path("/home/ada/a:b c")]
    here = systemd_unit.installation()
    text = {
        "--user": lambda: systemd_unit.user_unit(
            here, workspaces, {"XDG_STATE_HOME": "/data/my state"}, Path("/home/eve")
        ),
        "--system": lambda: systemd_unit.system_unit(here, "agents", workspaces),
    }[scope]()
    path = tmp_path / systemd_unit.NAME
    path.write_text(text)
    return path


@pytest.mark.skipif(
    ANALYZE is None, reason="systemd-analyze is not here; 'apt-get install --no-install-recommends systemd' brings it"
)
@pytest.mark.parametrize("scope", ["--user", "--system"])
def test_systemd_finds_nothing_to_complain_about_and_the_exposure_is_low(tmp_path: Path, scope: str) -> None:
    path = str(written(tmp_path, scope))
    found = analyzed(tmp_path, scope, "verify", "--man=no", path)
    # Units of the distribution that are loaded with it are not ours to mend.
    ours = [line for line in found.stderr.splitlines() if "dreamd" in line or str(systemd_unit.NAME) in line]
    assert (found.returncode, ours) == (0, [])
    found = analyzed(tmp_path, scope, "security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", path)
    shown = re.search(r"Overall exposure level for dreamd\.service: (\d+\.\d)", found.stdout)
    assert shown is not None, found.stderr
    assert (float(shown[1]) < MOST_EXPOSED, found.returncode) == (True, 0)
