import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from state.errors import BusyError, FencedError
from state.stores.disk.lock import acquire, holder, present_holder
from state.stores.disk.workspace import Workspace

pytestmark = pytest.mark.usefixtures("platform")

# Says what it holds, waits for a line, then says whether it still may write.
HOLD = """
import sys
from pathlib import Path
from state.errors import FencedError
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace, contained
lock = acquire(contained(Path(sys.argv[1])), "hold", wait_seconds=20)
print(lock.fence, flush=True)
sys.stdin.readline()
try:
    lock.check()
    print("owner", flush=True)
except FencedError:
    print("fenced", flush=True)
lock.release()
"""

# Takes the lock, shares it with a child that says so and waits, and says the child's number.
SHARE = """
import os, subprocess, sys
from pathlib import Path
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import contained
workspace = contained(Path(sys.argv[1]))
lock = acquire(workspace, "share")
with lock.shared() as fd:
    words = [sys.executable, "-c", sys.argv[2], sys.argv[1], str(fd), str(lock.fence)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(fd,))
print(child.stdout.readline().decode().strip(), flush=True)
sys.stdin.readline()
"""
CHILD = """
import os, sys, time
from pathlib import Path
from state.stores.disk.lock import take_over
from state.stores.disk.workspace import contained
lock = take_over(contained(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
print(os.getpid(), flush=True)
time.sleep(600)
"""


def run(script: str, workspace: Workspace, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(workspace.root), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd())  # noqa: PTH109


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until_stopped(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def test_the_second_one_is_told_who_holds_the_workspace(workspace: Workspace) -> None:
    with acquire(workspace, "dreamd serve"):
        with pytest.raises(BusyError, match=rf"process {os.getpid()} \('dreamd serve'.*once more; wait") as caught:
            acquire(workspace, "dreamd dream")
        assert caught.value.exit_status == 5
        assert "kill" not in str(caught.value)  # nobody ends the process that he is in
        assert holder(workspace) is not None
    assert holder(workspace) is None
    acquire(workspace, "dreamd dream").release()


def test_a_stopped_owner_is_displaced_and_cannot_write_when_it_goes_on(workspace: Workspace) -> None:
    with run(HOLD, workspace) as process:
        assert line(process) == "1"
        process.send_signal(signal.SIGSTOP)
        wait_until_stopped(process.pid)
        lock = acquire(workspace, "x")
        assert lock.fence == 2
        process.send_signal(signal.SIGCONT)
        assert process.communicate("go on\n")[0] == "fenced\n"
        lock.check()
        with pytest.raises(BusyError):
            acquire(workspace, "y")
        lock.release()
        acquire(workspace, "y").release()


def test_an_owner_that_runs_is_never_displaced(workspace: Workspace) -> None:
    with run(HOLD, workspace) as process:
        assert line(process) == "1"
        with pytest.raises(BusyError):
            acquire(workspace, "x", wait_seconds=0.1)
        assert process.communicate("go on\n")[0] == "owner\n"


def test_a_lock_that_is_shared_lasts_as_long_as_one_of_both(workspace: Workspace) -> None:
    with run(SHARE, workspace, CHILD) as owner:
        child = int(line(owner))
        owner.kill()
        owner.wait()
        assert present_holder(workspace) is not None
        with pytest.raises(BusyError):
            acquire(workspace, "x", wait_seconds=0.1)
        os.kill(child, signal.SIGKILL)
        acquire(workspace, "x", wait_seconds=5).release()


@pytest.mark.parametrize("ended", [False, True])
def test_a_stopped_owner_with_a_child_is_displaced_and_its_child_runs_no_more(
    workspace: Workspace,
    ended: bool,  # noqa: FBT001 - the child first
) -> None:
    with run(SHARE, workspace, CHILD) as owner:
        child = int(line(owner))
        if ended:
            os.kill(child, signal.SIGKILL)
        with pytest.raises(BusyError):  # the owner runs
            acquire(workspace, "x", wait_seconds=0.1)
        owner.send_signal(signal.SIGSTOP)
        wait_until_stopped(owner.pid)
        try:
            with acquire(workspace, "x", wait_seconds=5):
                assert Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2][0] == "Z"
        finally:
            owner.kill()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff\xfe", b"null"])
def test_a_lock_file_that_cannot_be_read_still_locks(workspace: Workspace, content: bytes) -> None:
    with acquire(workspace, "x") as lock:
        workspace.lock.write_bytes(content)
        with pytest.raises(BusyError, match="held by another process"):
            acquire(workspace, "y")
        lock.check()
    acquire(workspace, "y").release()


@pytest.mark.parametrize("content", [b"", b"garbage", b"-7\n", b"9" * 30, None])
def test_a_fence_that_was_damaged_by_hand_fences_its_owner_and_the_next_one_goes_on(
    workspace: Workspace, content: bytes | None
) -> None:
    with acquire(workspace, "x") as lock:
        if content is None:
            workspace.fence.unlink()
        else:
            workspace.fence.write_bytes(content)
        with pytest.raises(FencedError):
            lock.check()
    with acquire(workspace, "y") as later:
        later.check()
        assert lock.fence < later.fence < 2**62 or content is None
