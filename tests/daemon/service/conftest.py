"""A watcher that somebody listens to, and a workspace for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.service.watcher import Watcher
from state.stores.disk.workspace import Workspace
from tests.support.listening import BACKENDS, Ear, made, watcher_by


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture(params=BACKENDS)
def watcher(request: pytest.FixtureRequest, ear: Ear) -> Iterator[Watcher]:
    """By the kernel's events, and by polling; nothing fails in it."""
    failures: list[Exception] = []
    watcher = watcher_by(request.param, ear, failures.append)
    yield watcher
    watcher.close()
    assert failures == []
    assert watcher.problem is None


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return made(tmp_path / "here")
