"""HttpError: an error as an HTTP reply: `{"error": message, "code": CODE, "details": {}}` and a status.

The class of an error gives its status (`state.errors`); `OF_HTTP` lists statuses that HTTP itself adds. A temporary
error has a Retry-After.
"""

import errno
import json
import sqlite3
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from daemon.observability import logs
from daemon.observability.failures import failure
from state.errors import DreamdError, StorageError

if TYPE_CHECKING:
    from starlette.responses import Response

RETRY_SECONDS = 2
DISK_FULL = 507
OF_HTTP: Mapping[int, str] = {
    401: "UNAUTHORIZED: the token is missing or wrong",
    403: "FORBIDDEN: not from this origin, or not at this door",
    405: "METHOD_NOT_ALLOWED: it is not asked by this method",
    413: "TOO_LARGE: the body has more than 1 MiB",
    415: "UNSUPPORTED_MEDIA_TYPE: send application/json, without a Content-Encoding",
    421: "MISDIRECTED: the Host header does not name this daemon",
    503: "NOT_READY: it does not serve yet, or no more",
    DISK_FULL: "STORAGE_ERROR: the disk is full",
}
_FULL = (errno.ENOSPC, errno.EDQUOT)
_log = logs.get()


class HttpError(DreamdError):
    """An error as an HTTP reply; the HTTP layer raises it to refuse a request."""

    def __init__(
        self,
        status: int,
        code: str,
        what: str,
        details: Mapping[str, object] = MappingProxyType({}),
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(what)
        self.status, self.code, self.details, self.headers = status, code, details, headers

    @property
    def body(self) -> bytes:
        """Return the JSON on one line, in ASCII, as a message may contain anything."""
        return json.dumps(self.fields).encode()

    def response(self, headers: Mapping[str, str] = MappingProxyType({})) -> "Response":
        """Return Starlette's response with these headers added."""
        from starlette.responses import Response

        return Response(self.body, self.status, {**self.headers, **headers}, "application/json")


def http_error(error: Exception) -> HttpError:
    """Return the reply for this error.

    An error that is not dreamd's, the disk's or the database's is a defect: it is logged with its traceback, which
    the reply does not show.
    """
    if isinstance(error, HttpError):
        return error
    if isinstance(error, OSError | sqlite3.Error):  # with the message of the command line
        described = failure(error)
        explained = StorageError(described.what, described.advice)
        explained.__cause__, error = error, explained
    if not isinstance(error, DreamdError):
        _log.error("request_failed", error=error)
        return HttpError(500, "FAILED", "a defect in dreamd; its log says where, please report it")
    is_full, cause = False, error.__cause__
    while cause is not None:
        is_full, cause = is_full or getattr(cause, "errno", None) in _FULL, cause.__cause__
    return HttpError(
        DISK_FULL if is_full and error.http_status == 500 else error.http_status,
        error.code,
        " ".join(str(error).split()),
        error.details,
        {"Retry-After": str(getattr(error, "retry_seconds", RETRY_SECONDS))} if error.passing else {},
    )
