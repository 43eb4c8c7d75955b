"""Errors: the tree of errors that dreamd raises; each class has its exit status, its code and its HTTP status.

Each message says what happened, to what, and what to do. 409 means that the current state of the workspace forbids
the request, 503 that the daemon cannot do it now. A `passing` error may be retried soon.
"""

import copyreg
from collections.abc import Mapping
from typing import Any


class DreamdError(Exception):
    """Anything that dreamd refuses or fails at: `what` happened to what, and in `advice` what to do (may be empty).

    Of the advice, `for_all` is what anybody can follow; the rest is for the operator, who runs dreamd. `str(error)`
    is `what` and `advice`, as one line for a person; `details` are for programs.
    """

    exit_status = 1
    code = "FAILED"
    http_status = 500
    passing = False
    details: Mapping[str, object] = {}

    def __init__(self, what: str, advice: str = "", for_operator: str = "") -> None:
        whole = ", ".join(filter(None, (advice, for_operator)))
        super().__init__(f"{what}; {whole}" if whole else what)
        self.what, self.advice, self.for_all = what, whole, advice

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its fields, because the constructors of some classes take other arguments than the message."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    @property
    def fields(self) -> dict[str, object]:
        """Return the error as programs and agents get it, in every window."""
        return {"error": str(self), "code": self.code, "details": dict(self.details)}


class OperatorNotice(str):
    """A notice of which only who runs dreamd can make something: no tenant of a fleet gets it."""

    __slots__ = ()


class UsageError(DreamdError):
    """The command, the configuration or an argument cannot be meant as written."""

    exit_status = 2
    code = "VALIDATION_ERROR"
    http_status = 400


class ConfigError(UsageError):
    """A configuration key is unknown, of the wrong type, or has an impossible value."""


class NoWorkspaceError(UsageError):
    """A folder is in no workspace, or in a repository that has no memory yet."""


class NoMemoryError(NoWorkspaceError):
    """A folder is in a repository that has no memory yet."""

    def __init__(self, project: str, what: str, advice: str) -> None:
        super().__init__(f"{project} {what}", advice)
        self.project = project


class IgnoredError(NoWorkspaceError):
    """The owner wants no memory of this project."""


class ForeignError(DreamdError):
    """A folder has the id of a workspace that is not this user's, or of which it is a copy: nothing of it is used."""

    code = "NOT_ADOPTED"
    http_status = 403


class NothingToDoError(DreamdError):
    """There was no input; nothing was spent and nothing changed."""

    exit_status = 3
    code = "NOTHING_TO_DO"
    http_status = 409


class RejectedError(DreamdError):
    """A guard refused what was about to be written; the old state stands and nothing was consumed."""

    exit_status = 4
    code = "REJECTED"
    http_status = 409


class ConflictError(DreamdError):
    """What was to be changed is no longer what whoever asked has seen; nothing changed."""

    exit_status = 4
    code = "CONFLICT"
    http_status = 409


class BusyError(DreamdError):
    """Another process or a dream holds the workspace, or what else is needed."""

    exit_status = 5
    code = "BUSY"
    http_status = 409
    passing = True


class NotKeptError(BusyError):
    """The daemon knows the workspace and cannot keep it now: somebody else holds it, or it cannot be opened."""

    code = "NOT_KEPT"
    http_status = 503


class OverloadedError(BusyError):
    """The daemon answers as many requests as it can already; nothing was begun."""

    code = "OVERLOADED"
    http_status = 503


class NotFoundError(DreamdError):
    """The thing that was asked for is not here."""

    code = "NOT_FOUND"
    http_status = 404


class UnknownWorkspaceError(NotFoundError):
    """The daemon does not keep this workspace."""

    code = "UNKNOWN_WORKSPACE"


class ExpiredError(DreamdError):
    """The item's time has come; until it is cleaned it can be listed, exported and extended."""

    code = "EXPIRED"
    http_status = 410


class AlreadyPromotedError(DreamdError):
    """It was promoted before, and the long-term record that it became was forgotten since."""

    code = "ALREADY_PROMOTED"
    http_status = 409


class UnsupportedInstructionError(UsageError):
    """An instruction to forget that is none of those that are understood; nothing changed."""

    code = "UNSUPPORTED_INSTRUCTION"


class ConfirmRequiredError(UsageError):
    """What was asked for cannot be undone and was not confirmed; nothing changed."""

    code = "CONFIRM_REQUIRED"


class StorageError(DreamdError):
    """Disk, permissions or a store failed; what was acknowledged before is safe."""

    code = "STORAGE_ERROR"


class FullError(StorageError):
    """The disk has no space left, or the user's share of it is used up."""

    http_status = 507


class ReadOnlyError(StorageError):
    """This process may read here and not write: the disk, the folder's rights or a sandbox forbid it."""


class DocumentError(DreamdError):
    """MEMORY.md (or another file of the workspace) cannot be read as what it should be."""

    code = "DOCUMENT_ERROR"
    http_status = 409


class ModelError(DreamdError):
    """The model could not be reached, refused the request, or answered nothing usable."""

    code = "MODEL_ERROR"
    http_status = 502


class ReplyError(ModelError):
    """The model answered, was paid for, and the answer cannot be read as a reply."""


class UnattendedError(ModelError):
    """The agent that is to answer is not there, or would have to ask its user something first."""


class CeilingError(ModelError):
    """A ceiling on calls, tokens, dollars or time was reached; the breaker is open."""

    code = "CEILING"
    http_status = 429


class FencedError(DreamdError):
    """The workspace was taken over by another process; this one must not write any more."""

    exit_status = 5
    code = "FENCED"
    http_status = 503
    passing = True


class StoppedError(DreamdError):
    """The daemon is stopping; what was done is checkpointed and goes on at the next start."""

    exit_status = 5
    code = "STOPPED"
    http_status = 503
    passing = True


class UnreachableError(DreamdError):
    """A part of the fleet (its database, its object store, a worker) cannot be reached now; nothing is lost."""

    exit_status = 5
    code = "UNREACHABLE"
    http_status = 503
    passing = True


class UnknownOutcomeError(UnreachableError):
    """Something went away while it did what was asked, and nobody knows whether that is done: look before a retry."""

    code = "UNKNOWN_OUTCOME"
    passing = False


class ForbiddenError(DreamdError):
    """The token does not give the right to this."""

    code = "FORBIDDEN"
    http_status = 403


class QuotaError(DreamdError):
    """A tenant has used up what it may; nothing changed. After `retry_seconds` there is more (0: not by itself)."""

    code = "QUOTA"
    http_status = 429

    def __init__(self, what: str, advice: str = "", retry_seconds: int = 0) -> None:
        super().__init__(what, advice)
        self.retry_seconds = retry_seconds
        self.passing = retry_seconds > 0


# One class per code, in the order of this file: the errors that programs are told of.
KINDS: tuple[type[DreamdError], ...] = tuple(
    one
    for one in tuple(globals().values())
    if isinstance(one, type) and issubclass(one, DreamdError) and "code" in vars(one)
)


def error_of(code: str, message: str, details: Mapping[str, object] | None = None) -> DreamdError:
    """Rebuild an error that another process reported, with the class of its code, if there is one.

    `message` says both what happened and what to do: it becomes `what`. A code without a class, as in HTTP, is kept.
    """
    error = next((kind for kind in KINDS if kind.code == code), DreamdError)(message)
    error.code = code
    error.details = details or {}
    return error
