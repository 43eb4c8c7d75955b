"""Every command of the runbook in docs/fleet.md does what it says, one after the other, with real services."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from daemon.fleet.upkeep.status import KINDS
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.running import ROOT

PAGE = (ROOT / "docs/fleet.md").read_text()
# What needs the network, or starts a daemon of its own.
_NOT_HERE = ("uv tool install", "dreamd models install", "claude mcp add")


def commands(database: str, folder: Path) -> str:
    """Return the blocks of the page, with places and ports of the test's own."""
    text = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    text = "\n".join(line for line in text.splitlines() if not line.startswith(_NOT_HERE))
    text = text.replace("~/notes", "~/notes --no-daemon").replace("curl -s ", "curl -sf ")
    backup, first, second = folder / "backup", free_port(), free_port()
    backup.mkdir()
    own = {
        "postgresql://dreamd:secret@127.0.0.1:5432/dreamd": database,
        "/srv/dreamd": str(folder),
        "/var/backups/dreamd": str(backup),
        "7350": str(first),
        "7351": str(second),
    }
    for theirs, ours in own.items():
        assert theirs in text
        text = text.replace(theirs, ours)
    # The process of the first try listens before it is asked.
    begun = f"dreamd fleet serve & until curl -sf http://127.0.0.1:{first}/readyz; do sleep 1; done"
    text = re.sub(r"^dreamd fleet serve & +#.*$", begun, text, count=1, flags=re.MULTILINE)
    return f"set -euxo pipefail\nexport DREAMD_FLEET__PORT={first}\n{text}"


def test_the_page_names_every_alert_and_every_kind_of_problem() -> None:
    rules = yaml.safe_load((ROOT / "deploy/fleet/alerts.yaml").read_text())["groups"][0]["rules"]
    assert re.findall(r"^\| `(Dreamd\w+)` \|", PAGE, re.MULTILINE) == [rule["alert"] for rule in rules]
    [kinds] = re.findall(r"^The kinds of problems: (.*?)\.$", PAGE, re.MULTILINE | re.DOTALL)
    assert re.findall(r"\*(\w+)\*", kinds) == [*KINDS]


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_runbook_runs_from_the_first_block_to_the_last(postgres: Postgres, tmp_path: Path) -> None:
    script = commands(postgres.new_database(), tmp_path)
    own = {"HOME": str(tmp_path / "home"), "PATH": f"{ROOT / '.venv/bin'}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=own, stdout=said, stderr=said, start_new_session=True
        )
        try:
            status = process.wait(280)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = (tmp_path / "said").read_text()
    assert status == 0, text[-3_000:]
    assert text.count("\nleft         nothing in the store") == 2
    assert "dreamd_fleet_store_up 1.0" in text
    assert (tmp_path / "home/notes/MEMORY.md").exists()
    assert "-0.0" not in text  # as the money of a dream without a model
