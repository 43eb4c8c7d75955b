"""A repair beside the daemon: it lets the workspace go for so long, and takes it up again by itself."""

import os
from collections.abc import Iterator

import pytest

from daemon.config.registry import add
from state.stores.database.copies import copies_of
from state.stores.disk.workspace import Workspace
from tests.support import breaking
from tests.support.breaking import NOTED
from tests.support.copies import copy_of
from tests.support.serving import Home, at_home


@pytest.fixture
def home() -> Iterator[Home]:
    with at_home() as one:
        yield one


@pytest.fixture
def here(origin: Workspace, home: Home) -> Workspace:
    workspace = copy_of(origin.root, home.folder / "agent", home.environment())
    add(home.registry, workspace.root)
    return workspace


@pytest.mark.full
def test_the_daemon_does_it_in_a_workspace_that_it_keeps_and_goes_on(home: Home, here: Workspace) -> None:
    with home.serving() as daemon:
        assert home.dreamd("doctor", here.root, "--repair").status == 3, daemon.log
        here.document.write_bytes(bytes(500))
        examined = home.dreamd("doctor", here.root)
        assert "problem  MEMORY.md" in examined.out, examined
        ended = home.dreamd("doctor", here.root, "--repair")
        assert ended.status == 0, ended
        assert "mended   MEMORY.md" in ended.out, ended
        status = daemon.status(here)
        assert status.holder is not None
        assert status.holder.pid == daemon.process.pid
        assert status.problems == ()
        assert NOTED[5] in daemon.found(here, NOTED[5])
        assert home.dreamd("note", "The bell was polished", "-w", here.root).status == 0
        assert home.dreamd("dream", here.root).status == 0
        assert "The bell was polished" in here.document.read_text()


@pytest.mark.full
def test_the_daemon_copies_once_a_day_and_says_that_state_db_is_damaged(home: Home, here: Workspace) -> None:
    def grow_old() -> None:
        for copy in copies_of(here.database):
            os.utime(copy, (0, 0))

    grow_old()
    with home.serving() as daemon:
        daemon.until(lambda: copies_of(here.database)[0].stem == "000003")
        assert daemon.events("copy_failed") == []
    breaking.unnoticed(here)
    grow_old()
    with home.serving() as daemon:
        daemon.until(lambda: daemon.events("copy_failed"))
        assert "is damaged" in daemon.events("copy_failed")[0]["problem"]
        assert [one.deed for one in daemon.status(here).problems if "was not copied" in one.what] == ["doctor"]
        assert copies_of(here.database)[0].stem == "000003"
        assert home.dreamd("doctor", here.root, "--repair").status == 0
        assert [one for one in daemon.status(here).problems if "was not copied" in one.what] == []
