"""HttpError: an error as an HTTP reply: `{"error": message, "code": CODE, "details": {}}` and a status.

The class of an error gives its status (`state.errors`); `OF_HTTP` lists statuses that HTTP itself adds. A temporary
error has a Retry-After.
"""

import json
import sqlite3
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from daemon.observability import logs
from daemon.observability.failures import failure
from state.errors import DreamdError

if TYPE_CHECKING:
    from starlette.responses import Response

RETRY_SECONDS = 2
OF_HTTP: Mapping[int, str] = {
    401: "UNAUTHORIZED: the token is missing or wrong",
    403: "FORBIDDEN: not from this origin, or not at this door",
    405: "METHOD_NOT_ALLOWED: it is not asked by this method",
    413: "TOO_LARGE: the body has more than 1 MiB",
    415: "UNSUPPORTED_MEDIA_TYPE: send application/json, without a Content-Encoding",
    421: "MISDIRECTED: the Host header does not name this daemon",
    503: "NOT_READY: it does not serve yet, or no more",
    507: "STORAGE_ERROR: the disk is full",
}
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
    """Return the reply for this error, in one line and without secrets.

    An error that is not dreamd's, the disk's or the database's is a defect: it is logged with its traceback, which
    the reply does not show.
    """
    if isinstance(error, HttpError):
        return error
    if not isinstance(error, DreamdError | OSError | sqlite3.Error):
        _log.error("request_failed", error=error)
        return HttpError(500, "FAILED", "a defect in dreamd; its log says where, please report it")
    known, seconds = failure(error), getattr(error, "retry_seconds", RETRY_SECONDS)
    headers = {"Retry-After": str(seconds)} if known.passing else {}
    return HttpError(known.http_status, known.code, str(known), known.details, headers)
