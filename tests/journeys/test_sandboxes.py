"""Commands in an agent's sandbox: what reads works there, what writes says what to do instead."""

import platform
import subprocess

import pytest

from tests.support import forked
from tests.support.running import ROOT, Ended
from tests.support.sandbox import is_possible
from tests.support.serving import Home, noted

TEA, SECRET = "Ada prefers tea over coffee", "The wedding is on the third of May"


def within(home: Home, before: tuple[str, list[str]], *words: str) -> Ended:
    """The command in this sandbox."""
    process: forked.Forked[str] = forked.Forked(
        words,
        before=before,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=home.environment(),
        text=True,
    )
    out, err = process.communicate(timeout=300)
    return Ended(process.returncode, out, err)


@pytest.mark.full
@pytest.mark.skipif(not is_possible(), reason="nobody may mount here")
def test_on_a_read_only_disk_the_memory_is_read_and_a_note_is_sent_elsewhere(home: Home) -> None:
    workspace = home.workspace()
    noted(workspace, [TEA, SECRET])
    root, before = str(workspace.root), ("tests.support.sandbox:read_only", [str(home.folder)])
    assert home.dreamd("dream", root).status == 0
    assert home.dreamd("forget", "wedding", "--yes", "-w", root).status == 0
    for words in (("search", "tea", "-w", root), ("bootstrap", root), ("why", "tea", "-w", root)):
        ended = within(home, before, *words)
        assert ended.status == 0, ended.err
        assert TEA in ended.out
        assert "wedding" not in ended.out
    assert within(home, before, "status", root).status == 0
    for words in (("note", "x", "-w", root), ("feel", "reward", "-w", root), ("dream", root)):
        ended = within(home, before, *words)
        assert ended.status == 1
        assert "the file system is read-only; in an agent's sandbox note over MCP (working_memory_note)" in ended.err
    assert home.dreamd("search", "tea", "-w", root).err == ""  # outside nothing has changed


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="another number of connect")
def test_where_nothing_may_connect_the_memory_is_read_beside_the_daemon(home: Home) -> None:
    workspace, before = home.workspace(), ("tests.support.sandbox:without_connections", list[str]())
    noted(workspace, [TEA])
    with home.serving() as daemon:
        daemon.until_kept(workspace)
        assert daemon.found(workspace, "tea")
        ended = within(home, before, "search", "tea", "-w", str(workspace.root))
        assert ended.status == 0, ended.err
        assert TEA in ended.out
        assert "searched as it stands" in ended.err
        assert within(home, before, "note", "The cat is called Miez", "-w", str(workspace.root)).status == 0
        ended = within(home, before, "feel", "reward", "-w", str(workspace.root))
        assert ended.status == 5
        assert "this process may not ask the daemon, as in a sandbox; ask over MCP" in ended.err
