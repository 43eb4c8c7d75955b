"""One tree of errors. Each class has its exit status; each message says what happened, to what, and what to do."""

from collections.abc import Mapping


class DreamdError(Exception):
    """Anything that dreamd refuses or fails at. `str(error)` is one line for a person, `details` are for programs."""

    exit_status = 1
    code = "FAILED"
    details: Mapping[str, object] = {}


class UsageError(DreamdError):
    """The command, the configuration or an argument cannot be meant as written."""

    exit_status = 2
    code = "VALIDATION_ERROR"


class ConfigError(UsageError):
    """A configuration key is unknown, of the wrong type, or has an impossible value."""


class ForeignError(DreamdError):
    """The workspace was made by somebody else and has not been adopted by this user: it is only read."""

    code = "NOT_ADOPTED"


class NothingToDoError(DreamdError):
    """There was no input; nothing was spent and nothing changed."""

    exit_status = 3
    code = "NOTHING_TO_DO"


class RejectedError(DreamdError):
    """A guard refused what was about to be written; the old state stands and nothing was consumed."""

    exit_status = 4
    code = "REJECTED"


class BusyError(DreamdError):
    """Another process holds the workspace."""

    exit_status = 5
    code = "BUSY"


class NotKeptError(BusyError):
    """The daemon knows the workspace and cannot keep it now: somebody else holds it, or it cannot be opened."""

    code = "NOT_KEPT"


class NotFoundError(DreamdError):
    """The thing that was asked for is not here."""

    code = "NOT_FOUND"


class UnknownWorkspaceError(NotFoundError):
    """The daemon does not keep this workspace."""

    code = "UNKNOWN_WORKSPACE"


class ExpiredError(DreamdError):
    """The item's time has come; until it is cleaned it can be listed, exported and extended."""

    code = "EXPIRED"


class AlreadyPromotedError(DreamdError):
    """It was promoted before, and the long-term record that it became was forgotten since."""

    code = "ALREADY_PROMOTED"


class UnsupportedInstructionError(UsageError):
    """An instruction to forget that is none of those that are understood; nothing changed."""

    code = "UNSUPPORTED_INSTRUCTION"


class ConfirmRequiredError(UsageError):
    """What was asked for cannot be undone and was not confirmed; nothing changed."""

    code = "CONFIRM_REQUIRED"


class StorageError(DreamdError):
    """Disk, permissions or a store failed; what was acknowledged before is safe."""

    code = "STORAGE_ERROR"


class DocumentError(DreamdError):
    """MEMORY.md (or another file of the workspace) cannot be read as what it should be."""

    code = "DOCUMENT_ERROR"


class ModelError(DreamdError):
    """The model could not be reached, refused the request, or answered nothing usable."""

    code = "MODEL_ERROR"


class ReplyError(ModelError):
    """The model answered, was paid for, and the answer cannot be read as a reply."""


class CeilingError(ModelError):
    """A ceiling on calls, tokens, dollars or time was reached; the breaker is open."""

    code = "CEILING"


class FencedError(DreamdError):
    """The workspace was taken over by another process; this one must not write any more."""

    exit_status = 5
    code = "FENCED"


class StoppedError(DreamdError):
    """The daemon is stopping; what was done is checkpointed and goes on at the next start."""

    exit_status = 5
    code = "STOPPED"


def error_of(code: str, message: str, details: Mapping[str, object] | None = None) -> DreamdError:
    """The error that another process told: its class by its code, as far as it has one of its own."""
    error = _kind(code)(message)
    error.details = details or {}
    return error


def _kind(code: str) -> type[DreamdError]:
    for kind in (
        UsageError,
        ForeignError,
        NothingToDoError,
        RejectedError,
        BusyError,
        NotKeptError,
        NotFoundError,
        UnknownWorkspaceError,
        ExpiredError,
        AlreadyPromotedError,
        UnsupportedInstructionError,
        ConfirmRequiredError,
        StorageError,
        DocumentError,
        ModelError,
        CeilingError,
        FencedError,
        StoppedError,
    ):
        if kind.code == code:
            return kind
    return DreamdError
