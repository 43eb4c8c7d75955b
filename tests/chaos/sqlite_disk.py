"""What SQLite writes, met before it reaches the disk: for harm in the middle of its write, sync or truncation.

The default VFS's xOpen is replaced by one that gives every file of ours a copy of its methods, with those that change
the disk wrapped. Everything else is SQLite's own code and the real kernel.
"""

import ctypes
from collections.abc import Callable
from typing import Any

OK = 0
FULL = 13
IOERR_WRITE = 10 | (3 << 8)
# Of sqlite3_io_methods (version 3) in the order of sqlite3.h.
_METHODS = (
    "xClose xRead xWrite xTruncate xSync xFileSize xLock xUnlock xCheckReservedLock xFileControl xSectorSize "
    "xDeviceCharacteristics xShmMap xShmLock xShmBarrier xShmUnmap xFetch xUnfetch"
).split()
_WITHOUT = {1: 12, 2: 16}  # how many of them older versions have


class _Methods(ctypes.Structure):
    _fields_ = [("iVersion", ctypes.c_int), *((name, ctypes.c_void_p) for name in _METHODS)]


class _File(ctypes.Structure):
    _fields_ = [("pMethods", ctypes.POINTER(_Methods))]


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        ("xOpen", ctypes.c_void_p),
    ]


_OPEN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_File), ctypes.c_int, ctypes.c_void_p
)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)

# What is called back must not be collected.
_kept: list[Any] = []

# meet(name, torn) -> a result code: OK lets the call go on; `torn` does half of it.
Meet = Callable[[str, Callable[[], None]], int]


def intercept(meet: Meet) -> bool:
    """From now on `meet` is asked before each change in this process; False where SQLite is out of reach."""
    library = _library()
    if library is None:
        return False
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    vfs = library.sqlite3_vfs_find(None).contents
    original = _OPEN(vfs.xOpen)
    copies: dict[int, Any] = {}

    def opened(this: int, name: int, file: Any, flags: int, out: int) -> int:
        code = int(original(this, name, file, flags, out))
        if file.contents.pMethods:
            address = ctypes.addressof(file.contents.pMethods.contents)
            if address not in copies:
                copies[address] = _wrapped(file.contents.pMethods.contents, meet)
            file.contents.pMethods = ctypes.pointer(copies[address])
        return code

    wrapped = _OPEN(opened)
    _kept.extend((wrapped, original, copies))
    vfs.xOpen = ctypes.cast(wrapped, ctypes.c_void_p).value
    return True


def _library() -> ctypes.CDLL | None:
    import _sqlite3

    try:
        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        library.sqlite3_vfs_find  # noqa: B018 - built in without its symbols, as some builds of Python have it
    except (OSError, AttributeError):
        return None
    return library


def _wrapped(methods: _Methods, meet: Meet) -> _Methods:
    copy = _Methods()
    size = ctypes.sizeof(_Methods)
    if methods.iVersion in _WITHOUT:
        size = getattr(_Methods, _METHODS[_WITHOUT[methods.iVersion]]).offset
    ctypes.memmove(ctypes.byref(copy), ctypes.byref(methods), size)
    write, truncate, sync = _WRITE(methods.xWrite), _TRUNCATE(methods.xTruncate), _SYNC(methods.xSync)

    def writing(file: int, content: int, amount: int, offset: int) -> int:
        code = meet("sqlite write", lambda: write(file, content, amount // 2, offset))
        return code or int(write(file, content, amount, offset))

    def truncating(file: int, length: int) -> int:
        return meet("sqlite truncate", lambda: None) or int(truncate(file, length))

    def syncing(file: int, flags: int) -> int:
        return meet("sqlite sync", lambda: None) or int(sync(file, flags))

    for name, kind, call in (
        ("xWrite", _WRITE, writing), ("xTruncate", _TRUNCATE, truncating), ("xSync", _SYNC, syncing),
    ):  # fmt: skip
        callback = kind(call)
        _kept.append(callback)
        setattr(copy, name, ctypes.cast(callback, ctypes.c_void_p).value)
    return copy
