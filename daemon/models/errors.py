"""Why a model gave no answer: what any provider raises through litellm, as one line that says what to do."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from daemon.models.litellm_import import Foreign
from graphs.ports import Answer
from state.errors import ModelError, ReplyError

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_LOOK = re.compile(r"\b(?:sk|pk|rk|gsk|xai|AIza|hf|key)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)


class PassingError(ModelError):
    """Trying again may help. `answer` is the most that the failed try may have cost; None when it cost nothing."""

    def __init__(
        self, what: str, advice: str = "", *, retry_after: float | None = None, answer: Answer | None = None
    ) -> None:
        super().__init__(what, advice)
        self.retry_after = retry_after
        self.answer = answer


class UnusableReplyError(ReplyError):
    """The model answered nothing that can be read. `answer` is what it cost."""

    def __init__(self, what: str, advice: str, answer: Answer) -> None:
        super().__init__(what, advice)
        self.answer = answer


class SchemaRefusedError(ModelError):
    """The provider refused the request, which asked for structured output; without it, it may be taken."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in one try. `error` is to be raised; `charged` when the provider may have charged for it."""

    error: ModelError
    charged: bool = False
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request an error message may need."""

    name: str
    api_base: str | None
    timeout_seconds: float
    max_output_tokens: int
    structured: bool

    @property
    def place(self) -> str:
        """The model and where it was asked, without a password that the address may carry."""
        if self.api_base is None:
            return self.name
        parts = urlsplit(self.api_base)
        port = f":{parts.port}" if parts.port else ""
        return f"{self.name} at {parts.scheme}://{parts.hostname}{port}{parts.path}"


def explain(litellm: Foreign, error: BaseException, asked: Asked) -> Failure:
    """The failure behind an exception of litellm.

    litellm gives an unreadable answer, a broken connection and a server's 500 the same class and status, so the chain
    of causes decides: httpx's HTTPStatusError is in it exactly when a server answered with an error.
    """
    import httpx

    chain = tuple(_chain(error))
    http = next((link.response for link in chain if isinstance(link, httpx.HTTPStatusError)), None)
    if http is None and (failure := _without_an_answer(litellm, error, chain, asked)):
        return failure
    status = http.status_code if http is not None else getattr(error, "status_code", None)
    return _by_status(litellm, error, status, http, asked)


def _without_an_answer(
    litellm: Foreign, error: BaseException, chain: tuple[BaseException, ...], asked: Asked
) -> Failure | None:
    import httpx

    if any(isinstance(link, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout) for link in chain):
        return _passing(f"{asked.place} cannot be reached", "check model.api_base, the network and the server.")
    if isinstance(error, TimeoutError | litellm.Timeout):
        return _passing(
            f"{asked.place} did not answer within {asked.timeout_seconds:g} s",
            "raise model.timeout_seconds, or use a faster model.",
            charged=True,
        )
    if broken := next((link for link in chain if isinstance(link, httpx.TransportError)), None):
        # In the middle of an answer: the model had written it.
        begun = "message body" in str(broken)
        return _passing(f"{asked.place} broke the connection off", "see the server's log.", charged=begun)
    if asked.api_base is None and (missing := missing_keys(litellm, asked.name)):
        what, advice = _no_key(missing)
        return Failure(ModelError(f"{asked.place} {what}", advice))
    if _is_unreadable(error, chain):
        return Failure(
            ModelError(
                f"{asked.place} answered what is no chat completion", "check model.api_base (often it ends in /v1)."
            ),
            charged=True,
            unreadable=True,
        )
    return None


def _by_status(litellm: Foreign, error: BaseException, status: int | None, http: Foreign, asked: Asked) -> Failure:
    detail = _detail(error)
    used_up = status == 429 and re.search(r"insufficient_quota|billing", detail + _text(http)) is not None
    if status == 429 and not used_up:
        return _passing(
            f"{asked.place} is limiting the rate of requests",
            "wait, or raise the limit with the provider.",
            retry_after=_retry_after(http),
        )
    if status is not None and (status > 500 or (http is not None and status in (408, 409, 425, 500))):
        return _passing(f"{asked.place} failed ({status})", "try later.", retry_after=_retry_after(http))
    known = _known(litellm, error, status, http, asked)
    if known is None and status in (400, 422) and asked.structured:
        return Failure(SchemaRefusedError(f"{asked.place} refused structured output ({status}): {detail}"))
    verb = "refused the request" if http is not None else "could not be asked"
    what, advice = known or (f"{verb} ({status or type(error).__name__}): {detail}", "check model.name.")
    return Failure(ModelError(f"{asked.place} {what}", advice))


def _known(
    litellm: Foreign, error: BaseException, status: int | None, http: Foreign, asked: Asked
) -> tuple[str, str] | None:
    """What a kind of refusal that is known means, and what to do about it."""
    too_long = isinstance(error, litellm.ContextWindowExceededError) or "context_length" in _text(http)
    if too_long or status == 413:
        return (
            "takes no request as long as this one",
            "lower limits.tokens_per_dream, or use a model with a larger context window.",
        )
    if isinstance(error, litellm.ContentPolicyViolationError):
        return f"refused the content by its policy: {_detail(error)}", "use another model."
    if status in (401, 403):
        if missing := missing_keys(litellm, asked.name):
            return _no_key(missing)
        return f"does not accept the key ({status})", "check the provider's key in dreamd's environment."
    if status is not None and 300 <= status < 400:
        return (
            f"answered with a redirect{_place_named(http)} ({status}), which is not followed",
            "set model.api_base to the address that is meant.",
        )
    return {
        404: ("is not known there (404)", "check model.name and model.api_base."),
        429: ("has used up the account's quota (429)", "see the provider's billing page."),
    }.get(status or 0)


def _passing(what: str, advice: str, *, charged: bool = False, retry_after: float | None = None) -> Failure:
    return Failure(PassingError(what, advice, retry_after=retry_after), charged=charged)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_unreadable(error: BaseException, chain: tuple[BaseException, ...]) -> bool:
    """Whether an error without an HTTP error behind it is about what was answered, not about what could not be asked.

    Adapters that cannot read a 200 raise a 500, a 422 or no status; a key or a package that is missing is found
    before anything is sent.
    """
    if any(isinstance(link, ImportError) for link in chain):
        return False
    status = getattr(error, "status_code", None)
    return status in (None, 200, 422, 500) or any(isinstance(link, json.JSONDecodeError) for link in chain)


def missing_keys(litellm: Foreign, name: str) -> list[str]:
    """Environment variables of secrets that the provider needs, as far as litellm knows, and that are not set."""
    missing: list[str] = litellm.validate_environment(name)["missing_keys"]
    return [variable for variable in missing if _SECRET_NAME.search(variable)]


def _no_key(missing: list[str]) -> tuple[str, str]:
    return "wants a key and there is none", f"set {' and '.join(missing)} in dreamd's environment."


def _text(http: Foreign) -> str:
    return http.text if http is not None and http.is_stream_consumed else ""


def _place_named(http: Foreign) -> str:
    """Where a redirect leads: host and port alone, for the rest may hold anything."""
    try:
        parts = urlsplit(http.headers.get("location", "")) if http is not None else None
        return f" to {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts and parts.netloc else ""
    except ValueError:
        return ""


def _retry_after(http: Foreign) -> float | None:
    """Seconds that the provider asks to wait; the header holds seconds or a date (RFC 9110, 10.2.3)."""
    said = http.headers.get("retry-after") if http is not None else None
    if said is None:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _detail(error: BaseException) -> str:
    """What the provider said: one short line without a key, whoever's it is."""
    said = " ".join(str(error).split("Traceback")[0].split())
    said = re.sub(r"^(?:[\w.]*(?:Exception|Error)(?:\s-|:)\s+)+", "", said)
    for name, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(name):
            said = said.replace(value, "***")
    return _SECRET_LOOK.sub("***", said)[:200] or type(error).__name__
