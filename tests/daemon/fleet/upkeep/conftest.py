"""A fleet for each test, which commands find."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.fleet.upkeep.kept import Kept, kept
from tests.support.folders import PLACE


@pytest.fixture
def fleet(fleet_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A fleet, and the variables by which commands find it."""
    with kept(fleet_url, tmp_path) as one:
        for name, value in one.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv(
            "DREAMD_SOCKET", f"{PLACE}/dreamd-nobody-{os.getpid()}.sock"
        )  # a short path, and no daemon
        yield one
