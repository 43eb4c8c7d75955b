"""Failures: any error as one line of text with advice, and as an exit status."""

import json
import os
import sys
from pathlib import Path

from daemon.observability.printable import safe
from state.errors import DreamdError, UsageError
from state.stores.disk.syscalls import storage_errors

_DEBUG = "DREAMD_DEBUG"


def debugging() -> bool:
    """Return whether DREAMD_DEBUG asks for tracebacks."""
    return os.environ.get(_DEBUG, "") not in ("", "0")


def failure(error: Exception) -> DreamdError:
    """Return any error as a DreamdError, in one line and without secrets."""
    known = error if isinstance(error, DreamdError) else _as_dreamd_error(error)
    from state.secrets.redaction import redact  # an error may quote its input

    failed = DreamdError(*(redact(" ".join(text.split())).text for text in (known.what, known.advice)))
    failed.code, failed.exit_status, failed.details = known.code, known.exit_status, known.details
    return failed


def report(failed: DreamdError, *, as_json: bool) -> int:
    """Print the error to stderr, with `as_json` also to stdout; return the exit status."""
    sys.stderr.write(f"dreamd: {safe(str(failed))}\n")
    if as_json:
        error = {"error": str(failed), "code": failed.code, "details": failed.details}
        sys.stdout.write(json.dumps(error, ensure_ascii=False) + "\n")
    return failed.exit_status


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
