"""Where dreamd cannot work it says so in its first line: on Windows, and among files of another package `daemon`."""

import subprocess
import sys
from pathlib import Path

from tests.support.running import ROOT, Ended


def begun(script: str, folder: Path = ROOT) -> Ended:
    """Run `dreamd status` in a new interpreter that finds the packages in this folder, after the script."""
    script = f"import sys; {script}; from daemon.cli import main; sys.exit(main(['status']))"
    ended = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_windows_is_told_what_to_use() -> None:
    missing = "sys.modules.update(dict.fromkeys(('fcntl', 'pwd', 'resource', 'termios')))"
    said = "dreamd: it runs on Linux and macOS; on Windows use WSL\n"
    assert begun(f"{missing}; sys.platform = 'win32'") == Ended(1, "", said)


def test_files_of_another_package_among_ours_are_named(tmp_path: Path) -> None:
    for name in ("graphs", "prompts", "state"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "daemon").mkdir()
    for path in (ROOT / "daemon").iterdir():
        (tmp_path / "daemon" / path.name).symlink_to(path)
    assert "Python environment" not in begun("pass", tmp_path).err
    # As python-daemon does, which a later installation lays over ours.
    (tmp_path / "daemon" / "daemon.py").write_text("class DaemonContext: pass\n")
    (tmp_path / "daemon" / "__init__.py").unlink()
    (tmp_path / "daemon" / "__init__.py").write_text("from .daemon import DaemonContext\n")
    ended = begun("pass", tmp_path)
    assert (ended.status, ended.out) == (1, "")
    assert f"has put daemon.py into {tmp_path}/daemon" in ended.err
    assert "'uv tool install dreamd' or 'pipx install dreamd'" in ended.err
