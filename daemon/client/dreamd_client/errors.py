"""Errors: what the daemon or the program refuses or fails at, and what happens on the way to them."""

from collections.abc import Mapping
from typing import Any


class DreamdError(Exception):
    """Anything that dreamd refuses or fails at. `code` is one of /v1/openapi.json, such as NOTHING_TO_DO or BUSY.

    `what` happened to what, and in `advice` what to do: an error of the daemon's says both in `what`. `str(error)` is
    both, as one line for a person; `details` are for programs.
    """

    code = "FAILED"

    def __init__(
        self, what: str, advice: str = "", *, code: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{what}; {advice}" if advice else what)
        self.what, self.advice, self.code, self.details = what, advice, code or self.code, details or {}


class NoDaemonError(DreamdError):
    """Nobody answered, and nothing was begun: no daemon runs, and there is no program `dreamd` in its place."""

    code = "UNREACHABLE"


class LostError(DreamdError):
    """The daemon went or fell silent while it worked, and nobody knows whether it was done: look before a retry."""

    code = "UNKNOWN_OUTCOME"


def usage_error(what: str, advice: str) -> DreamdError:
    """Return the error for an argument that cannot be meant."""
    return DreamdError(what, advice, code="VALIDATION_ERROR")


def error_of(reply: Mapping[str, Any]) -> DreamdError:
    """Return the error of a reply `{"error", "code", "details"}`."""
    return DreamdError(
        str(reply["error"]), code=str(reply.get("code", "FAILED")), details=dict(reply.get("details") or {})
    )
