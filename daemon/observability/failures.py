"""Failures: an error as one line that says what to do, and as an exit status."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from daemon.observability.printable import safe
from state.errors import DreamdError, UsageError
from state.stores.disk.syscalls import storage_errors

_DEBUG = "DREAMD_DEBUG"


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a command that did not do what it was asked for."""

    what: str
    advice: str
    code: str
    exit_status: int
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """What happened and what to do, in one line."""
        return f"{self.what}; {self.advice}" if self.advice else self.what


def debugging() -> bool:
    """Tell whether tracebacks are wanted."""
    return os.environ.get(_DEBUG, "") not in ("", "0")


def failure(error: Exception) -> Failure:
    """Return the error as message, code and exit status, without secrets."""
    if not isinstance(error, DreamdError):
        error = _as_dreamd_error(error)
    from state.secrets.redaction import redact  # an error may quote its input

    what, advice = (redact(" ".join(text.split())).text for text in (error.what, error.advice))
    return Failure(what, advice, error.code, error.exit_status, error.details)


def report(failed: Failure, *, as_json: bool) -> int:
    """Print it to stderr, with `as_json` to stdout too; return the exit status."""
    sys.stderr.write(f"dreamd: {safe(failed.message)}\n")
    if as_json:
        error = {"error": failed.message, "code": failed.code, "details": failed.details}
        sys.stdout.write(json.dumps(error, ensure_ascii=False) + "\n")
    return failed.exit_status


def _as_dreamd_error(error: Exception) -> DreamdError:
    import sqlite3

    if isinstance(error, OSError):
        named = isinstance(error.filename, str | bytes) and error.filename  # it may be the number of an open file
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
