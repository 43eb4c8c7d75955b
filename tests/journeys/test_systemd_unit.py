"""What systemd itself says of the units: nothing to complain about, and an exposure under 3.0."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from daemon.process import systemd_unit

ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 3.0

pytestmark = pytest.mark.skipif(
    ANALYZE is None, reason="systemd-analyze is not here; 'apt-get install --no-install-recommends systemd' brings it"
)


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


@pytest.mark.parametrize("scope", ["--user", "--system"])
def test_systemd_finds_nothing_to_complain_about(tmp_path: Path, scope: str) -> None:
    found = analyzed(tmp_path, scope, "verify", "--man=no", str(written(tmp_path, scope)))
    assert (found.returncode, _about_ours(found)) == (0, [])


@pytest.mark.parametrize("scope", ["--user", "--system"])
def test_the_exposure_is_low(tmp_path: Path, scope: str) -> None:
    path = written(tmp_path, scope)
    found = analyzed(tmp_path, scope, "security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", str(path))
    shown = re.search(r"Overall exposure level for dreamd\.service: (\d+\.\d)", found.stdout)
    assert shown is not None, found.stderr
    assert float(shown[1]) < MOST_EXPOSED
    assert found.returncode == 0


def _about_ours(found: subprocess.CompletedProcess[str]) -> list[str]:
    # Units of the distribution that are loaded with it are not ours to mend.
    return [line for line in found.stderr.splitlines() if "dreamd" in line or str(systemd_unit.NAME) in line]
