"""What went wrong, as an HTTP answer: `{"error": message, "code": CODE, "details": {}}` and a status.

    400 VALIDATION_ERROR   not JSON, or cannot be meant as written     422 VALIDATION_ERROR   a field; details name it
    404 NOT_FOUND, UNKNOWN_WORKSPACE; 410 EXPIRED                      409 NOTHING_TO_DO, REJECTED, DOCUMENT_ERROR,
                                                                           ALREADY_PROMOTED
    429 CEILING            a ceiling on calls, tokens or dollars       500 STORAGE_ERROR, FAILED; 507 the disk is full
    502 MODEL_ERROR        the model's fault                           503 BUSY, NOT_KEPT, FENCED, STOPPED: try again

409 is for what is refused because of how the workspace is: nothing was changed, and the code says what it was.
"""

import errno
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon import logs
from state.errors import (
    AlreadyPromotedError,
    BusyError,
    CeilingError,
    DocumentError,
    DreamdError,
    ExpiredError,
    FencedError,
    ModelError,
    NotFoundError,
    NothingToDoError,
    RejectedError,
    StoppedError,
    StorageError,
    UsageError,
)

if TYPE_CHECKING:
    from starlette.responses import Response

RETRY_SECONDS = 2
_FULL = (errno.ENOSPC, errno.EDQUOT)
_log = logs.get()


class FieldsError(UsageError):
    """Fields of a request are not what they should be: their names, and what is wrong with each."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        first, *others = (f"{name}: {problem}" if name else problem for name, problem in fields.items())
        super().__init__(first + (f" (and {len(others)} more)" if others else ""))
        self.details = {"fields": dict(fields)}


# The class of an error, or the nearest one above it that stands here.
STATUSES: Mapping[type[DreamdError], int] = {
    DreamdError: 500,
    UsageError: 400,
    FieldsError: 422,
    NotFoundError: 404,
    ExpiredError: 410,
    AlreadyPromotedError: 409,
    NothingToDoError: 409,
    RejectedError: 409,
    DocumentError: 409,
    BusyError: 503,
    FencedError: 503,
    StoppedError: 503,
    StorageError: 500,
    ModelError: 502,
    CeilingError: 429,
}


@dataclass(frozen=True, slots=True)
class Wrong:
    """An answer that is an error."""

    status: int
    code: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The JSON, on one line; plain ASCII, because a message may hold anything."""
        return json.dumps({"error": self.message, "code": self.code, "details": self.details}).encode()

    def response(self, headers: tuple[tuple[str, str], ...] = ()) -> "Response":
        """As Starlette sends it, with more headers."""
        from starlette.responses import Response

        answer = Response(self.body, self.status, dict(self.headers), "application/json")
        for name, value in headers:
            answer.headers.append(name, value)
        return answer


class RefusedError(DreamdError):
    """A request that HTTP itself refuses; `wrong` is the answer."""

    def __init__(self, answer: Wrong) -> None:
        super().__init__(answer.message)
        self.wrong = answer


def wrong(error: Exception) -> Wrong:
    """How this error is told.

    What is no error of dreamd's, its disk's or its database's is a defect: it is logged with its place, and the
    answer says no more than that.
    """
    if isinstance(error, RefusedError):
        return error.wrong
    if isinstance(error, OSError | sqlite3.Error):
        error = _explained(error)
    if not isinstance(error, DreamdError):
        _log.error("request_failed", error=error)
        return Wrong(500, "FAILED", "a defect in dreamd; its log says where, please report it")
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    if status == 500 and any(isinstance(one, OSError) and one.errno in _FULL for one in _causes(error)):
        status = 507
    return Wrong(
        status,
        error.code,
        " ".join(str(error).split()),
        error.details,
        {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {},
    )


def _explained(error: OSError | sqlite3.Error) -> DreamdError:
    """As the command line tells it."""
    from daemon.cli.failures import failure

    explained = StorageError(failure(error).message)
    explained.__cause__ = error
    return explained


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
