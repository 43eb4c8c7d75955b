"""Doors: links that lead out, what others may read, and a daemon that does not answer."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.ingest.agent_hooks import link
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import open_exclusive
from state.stores.disk.workspace import Workspace
from tests.support.running import Caller
from tests.support.serving import Home


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    workspace = init_workspace(tmp_path / "here")
    (tmp_path / "away").mkdir()
    return workspace


def remembered(workspace: Workspace) -> str:
    with open_exclusive(workspace, Config(), "a test") as store:
        return " ".join(crystal.text for crystal in store.crystals.by_keys(range(999)).values())


def test_a_link_that_a_hook_made_is_followed_and_so_is_one_to_what_was_ingested(
    dreamd: Caller, here: Workspace
) -> None:
    away = here.root.parent / "away"
    named, told, neither = (away / f"{name}.md" for name in ("named", "told", "neither"))
    for path in (named, told, neither):
        path.write_text(f"The {path.stem} zebra sleeps\n", encoding="utf-8")
    link(here, named, ["transcripts/**/*"])
    for path in (told, neither):
        (here.root / "transcripts" / path.name).symlink_to(path)
    assert dreamd("ingest", "-w", here.root, told).status == 0
    told.write_text("The told zebra sleeps\n\nThe told zebra woke\n", encoding="utf-8")
    ended = dreamd("dream", here.root)
    text = remembered(here)
    assert ("named zebra" in text, "told zebra woke" in text, "neither" in text) == (True, True, False)
    assert f"dreamd ingest {neither}" in ended.err
    listed = here.state / "transcripts"
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600
    assert str(told) in listed.read_text(encoding="utf-8")


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_nobody_else_may_read_what_is_kept(dreamd: Caller, tmp_path: Path, umask: int) -> None:
    root = tmp_path / "here"
    before = os.umask(umask)
    try:
        dreamd("init", root)
        dreamd("note", "-w", root, "Ada repaired the kettle of house 4")
        assert dreamd("dream", root).status == 0
        dreamd("search", "-w", root, "kettle")
        with open_exclusive(open_workspace(root.resolve()), Config(), "a test") as store:
            store.embed()
            assert store.crystals.vectors.vector_count()
        dreamd("session", "add", "-w", root, "s", "An item")
    finally:
        os.umask(before)
    state = open_workspace(root).state
    every = [state, *state.rglob("*"), root / "memory", root / "memory/scratch.md"]
    assert len(every) > 10
    assert [path for path in every if stat.S_IMODE(path.lstat().st_mode) & 0o077] == []


def test_a_state_db_of_an_earlier_version_is_closed_to_others(dreamd: Caller, here: Workspace) -> None:
    dreamd("search", "-w", here.root, "kettle")
    here.database.chmod(0o644)
    dreamd("search", "-w", here.root, "kettle")
    assert stat.S_IMODE(here.database.stat().st_mode) == 0o600


@pytest.mark.full
def test_a_daemon_that_is_stopped_is_named_and_not_waited_for(home: Home, tmp_path: Path) -> None:
    with home.serving() as daemon:
        assert (
            json.loads(home.dreamd("status", "--json", PWD=str(tmp_path)).out)["daemon"]["pid"] == daemon.process.pid
        )
        daemon.send(signal.SIGSTOP)
        try:
            ended = home.dreamd("status")
        finally:
            daemon.send(signal.SIGCONT)
        assert ended.status != 0
        assert "it is stopped, or overrun" in ended.err
