"""Failures: any error as one line of text with advice, and as an exit status."""

import os
import re
from pathlib import Path

from state.errors import DreamdError, UsageError
from state.stores.disk.syscalls import storage_errors

_DEBUG = "DREAMD_DEBUG"
# A quoted text, or a path outside of quotes.
_PART = re.compile(r"""(?<!\w)'[^']*'|"[^"]*"|(?<!\S)~?/[^\s'"]*[\w/]""")
_PATH = re.compile(r"""['"]?~?/\S*""")
_PLACE = re.compile(r"/place(\d+)\b")


def debugging() -> bool:
    """Return whether DREAMD_DEBUG asks for tracebacks."""
    return os.environ.get(_DEBUG, "") not in ("", "0")


def failure(error: Exception) -> DreamdError:
    """Return any error as a DreamdError, in one line and without secrets."""
    known = error if isinstance(error, DreamdError) else _as_dreamd_error(error)
    failed = DreamdError(*(without_secrets(" ".join(text.split())) for text in (known.what, known.advice)))
    failed.code, failed.exit_status, failed.details = known.code, known.exit_status, known.details
    failed.http_status, failed.passing = known.http_status, known.passing
    return failed


def without_secrets(sentence: str) -> str:
    """Return a sentence of dreamd's own, which may quote anything, without secrets.

    A path in it is judged alone: the name of a folder says nothing about the words behind it.
    """
    from state.secrets.redaction import redact

    paths = list[str]()

    def placed(part: re.Match[str]) -> str:
        if not _PATH.fullmatch(part[0]):
            return part[0]
        paths.append(redact(part[0]).text)
        return f"/place{len(paths) - 1}"

    return _PLACE.sub(lambda place: paths[int(place[1])], redact(_PART.sub(placed, sentence)).text)


def _as_dreamd_error(error: Exception) -> DreamdError:
    import sqlite3

    if isinstance(error, OSError):
        named = isinstance(error.filename, str | bytes) and error.filename  # it may be a file descriptor
        try:
            with storage_errors(Path(os.fsdecode(named or "the disk"))):
                raise error
        except DreamdError as known:
            return known
    if isinstance(error, sqlite3.Error):
        from state.stores.database.connection import explained

        return explained(error, Path("a database of dreamd"))
    if isinstance(error, UnicodeDecodeError):
        return UsageError(f"byte {error.start} of what was read is not UTF-8", "give UTF-8 text")
    return DreamdError(f"a defect: {type(error).__name__}: {error}", f"{_DEBUG}=1 shows where, please report it")
