"""Sandboxes as agents put around commands: one that lets nothing connect, and one with a read-only disk."""

import ctypes
import os
import platform
import struct
import subprocess

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
