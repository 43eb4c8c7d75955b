"""A fleet for each test, which commands find."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.fleet.connections import connect
from tests.daemon.fleet.upkeep.kept import Kept
from tests.support.folders import PLACE


@pytest.fixture
def fleet(fleet_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A fleet, and the variables by which commands find it."""
    one = Kept(fleet_url, tmp_path)
    connect(one.config(), {}).close()
    for name in ("database", "objects", "folder"):
        monkeypatch.setenv(f"DREAMD_FLEET__{name.upper()}", str(getattr(one.config().fleet, name)))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("DREAMD_SOCKET", f"{PLACE}/dreamd-nobody-{os.getpid()}.sock")  # a short path, and no daemon
    yield one
    one.close()
