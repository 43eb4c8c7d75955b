"""Commands in an agent's sandbox: what reads works there, what writes says what to do instead."""

import ctypes
import os
import platform
import struct
import subprocess

import pytest

from tests.support import forked
from tests.support.running import Ended
from tests.support.serving import Home, noted

# linux/prctl.h, linux/seccomp.h, linux/filter.h; the number of connect(2).
_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_CONNECT = {"x86_64": 42, "aarch64": 203}
_EPERM = 1


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def without_connections() -> None:
    """From now on this process and its children get EPERM for every connect, as in Codex's sandbox (seccomp)."""
    steps = (
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 0, 1, _CONNECT[platform.machine()]),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    library = ctypes.CDLL(None, use_errno=True)
    assert library.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert library.prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(_Program(len(steps), code)), 0, 0) == 0


def is_possible() -> bool:
    """Whether this user may mount in a namespace of its own, here."""
    made = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and made.returncode == 0


def read_only(folder: str) -> None:
    """From now on this process finds the folder on a read-only file system; others do not."""
    clone_newns, bind, remount_private, remount_read_only = 0x20000, 4096, 0x40000 | 16384, 4096 | 32 | 1
    library, path = ctypes.CDLL(None, use_errno=True), os.fsencode(folder)
    assert library.unshare(clone_newns) == 0
    assert library.mount(b"none", b"/", None, remount_private, None) == 0
    assert library.mount(path, path, None, bind, None) == 0
    assert library.mount(None, path, None, remount_read_only, None) == 0


TEA, SECRET = "Ada prefers tea over coffee", "The wedding is on the third of May"


def within(home: Home, before: tuple[str, list[str]], *words: str) -> Ended:
    ended = forked.run(words, environment=home.environment(), before=before)
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


@pytest.mark.full
@pytest.mark.skipif(not is_possible(), reason="nobody may mount here")
def test_on_a_read_only_disk_the_memory_is_read_and_a_note_is_sent_elsewhere(home: Home) -> None:
    workspace = home.workspace()
    noted(workspace, [TEA, SECRET])
    root, before = str(workspace.root), ("tests.journeys.test_sandboxes:read_only", [str(home.folder)])
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
    workspace, before = home.workspace(), ("tests.journeys.test_sandboxes:without_connections", list[str]())
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
