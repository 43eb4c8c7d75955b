"""Model errors: turns what any provider raises through litellm into one line that says what to do."""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from daemon.models.litellm_import import Foreign
from graphs.ports import Answer
from state.budget import Spend
from state.errors import ModelError, ReplyError

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_LOOK = re.compile(r"\b(?:sk|pk|rk|gsk|xai|AIza|hf|key)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)


class TransientError(ModelError):
    """A failure that another try may get past. `answer` is the most that this try may have cost, None for nothing."""

    def __init__(
        self, what: str, advice: str = "", *, retry_after: float | None = None, answer: Answer | None = None
    ) -> None:
        super().__init__(what, advice)
        self.retry_after = retry_after
        self.answer = answer


class UnusableReplyError(ReplyError):
    """An answer without readable text. `answer` is what it cost."""

    def __init__(self, what: str, advice: str, answer: Answer) -> None:
        super().__init__(what, advice)
        self.answer = answer


class SchemaRefusedError(ModelError):
    """The provider refused a request for structured output; without it, the request may be accepted."""


def lost_answer(model: str, worst: Spend, tokens_out: int, seconds: float) -> Answer:
    """Return what a try without a readable answer is charged as: the most that it may have cost."""
    tokens_in = worst.tokens - tokens_out
    return Answer("", model, tokens_in, tokens_out, worst.usd, "error", seconds, estimated=True)


def discreet(error: ModelError) -> ModelError:
    """Return the error without what the model, or who runs it, says of itself: no address, account or key."""
    if isinstance(error, TransientError):
        what, advice = "the model cannot be asked now", "try again later."
        return TransientError(what, advice, retry_after=error.retry_after, answer=error.answer)
    if isinstance(error, UnusableReplyError):
        return UnusableReplyError("the model answered nothing that can be used", "try again.", error.answer)
    return ModelError("the model refused the request", "ask who runs the service; the log says why.")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What error messages say of the call, and the most that it may have cost."""

    name: str
    api_base: str | None
    timeout_seconds: float
    structured: bool
    most: Callable[[], Answer]

    @property
    def place(self) -> str:
        """The model and its address, without a password that the address may carry."""
        if self.api_base is None:
            return self.name
        parts = urlsplit(self.api_base)
        port = f":{parts.port}" if parts.port else ""
        return f"{self.name} at {parts.scheme}://{parts.hostname}{port}{parts.path}"


def explain(litellm: Foreign, error: BaseException, context: CallContext) -> ModelError:
    """Return the error that an exception of litellm stands for.

    litellm gives an unreadable answer, a broken connection and a server's 500 the same class and status, so the chain
    of causes decides: httpx's HTTPStatusError is in it exactly when a server answered with an error.
    """
    import httpx

    chain = tuple(_chain(error))
    http = next((link.response for link in chain if isinstance(link, httpx.HTTPStatusError)), None)
    failure = _without_an_answer(litellm, error, chain, context) if http is None else None
    return failure or _refused(litellm, error, http, context)


def _without_an_answer(
    litellm: Foreign, error: BaseException, chain: tuple[BaseException, ...], context: CallContext
) -> ModelError | None:
    import httpx

    place = context.place
    if any(isinstance(link, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout) for link in chain):
        return TransientError(f"{place} cannot be reached", "check model.api_base, the network and the server.")
    if isinstance(error, TimeoutError | litellm.Timeout):
        what = f"{place} did not answer within {context.timeout_seconds:g} s"
        return TransientError(what, "raise model.timeout_seconds, or use a faster model.", answer=context.most())
    if broken := next((link for link in chain if isinstance(link, httpx.TransportError)), None):
        # It broke in the middle of an answer, which the model had written.
        answer = context.most() if "message body" in str(broken) else None
        return TransientError(f"{place} broke the connection off", "see the server's log.", answer=answer)
    if context.api_base is None and (missing := missing_keys(litellm, context.name)):
        return ModelError(f"{place} wants a key and there is none", _set_keys(missing))
    # Adapters that cannot read a 200 raise a 500, a 422 or no status; a missing package is found before anything is
    # sent.
    is_json = any(isinstance(link, json.JSONDecodeError) for link in chain)
    is_status = getattr(error, "status_code", None) in (None, 200, 422, 500)
    if (is_json or is_status) and not any(isinstance(link, ImportError) for link in chain):
        what = f"{place} answered what is no chat completion"
        return UnusableReplyError(what, "check model.api_base (often it ends in /v1).", context.most())
    return None


def _refused(litellm: Foreign, error: BaseException, http: Foreign, context: CallContext) -> ModelError:
    """Return what a refusal means: the first row that fits, each with what to do about it."""
    status = int(http.status_code if http is not None else getattr(error, "status_code", None) or 0)
    detail, text = _detail(error), http.text if http is not None and http.is_stream_consumed else ""
    used_up = status == 429 and re.search(r"insufficient_quota|billing", detail + text) is not None
    if status == 429 and not used_up:
        what, advice = "is limiting the rate of requests", "wait, or raise the limit with the provider."
        return TransientError(f"{context.place} {what}", advice, retry_after=_retry_after(http))
    if status > 500 or (http is not None and status in (408, 409, 425, 500)):
        return TransientError(f"{context.place} failed ({status})", "try later.", retry_after=_retry_after(http))
    missing = missing_keys(litellm, context.name) if status in (401, 403) else []
    is_too_long = isinstance(error, litellm.ContextWindowExceededError) or status == 413
    is_too_long = is_too_long or re.search("context[_ ]length", text) is not None
    rows = (
        (is_too_long, "takes no request as long as this one",
         "lower limits.tokens_per_dream, or use a model with a larger context window."),
        (isinstance(error, litellm.ContentPolicyViolationError),
         f"refused the content by its policy: {detail}", "use another model."),
        (bool(missing), "wants a key and there is none", _set_keys(missing)),
        (status in (401, 403), f"does not accept the key ({status})",
         "check the provider's key in dreamd's environment."),
        (300 <= status < 400, f"answered with a redirect{_redirect_target(http)} ({status}), which is not followed",
         "set model.api_base to the address that is meant."),
        (status == 404, "is not known there (404)", "check model.name and model.api_base."),
        (used_up, "has used up the account's quota (429)", "see the provider's billing page."),
    )  # fmt: skip
    for fits, what, advice in rows:
        if fits:
            return ModelError(f"{context.place} {what}", advice)
    if status in (400, 422) and context.structured:
        return SchemaRefusedError(f"{context.place} refused structured output ({status}): {detail}")
    verb = "refused the request" if http is not None else "could not be asked"
    return ModelError(f"{context.place} {verb} ({status or type(error).__name__}): {detail}", "check model.name.")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def missing_keys(litellm: Foreign, name: str) -> list[str]:
    """Return the variables of keys that the provider needs, as far as litellm knows, and that are not set."""
    missing: list[str] = litellm.validate_environment(name)["missing_keys"]
    return [variable for variable in missing if _SECRET_NAME.search(variable)]


def _set_keys(missing: list[str]) -> str:
    return f"set {' and '.join(missing)} in dreamd's environment."


def _redirect_target(http: Foreign) -> str:
    """Return the target of a redirect: host and port alone, for the rest may hold anything."""
    try:
        parts = urlsplit(http.headers.get("location", "")) if http is not None else None
        return f" to {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts and parts.netloc else ""
    except ValueError:
        return ""


def _retry_after(http: Foreign) -> float | None:
    """Return how long the provider asks to wait; the header holds seconds or a date (RFC 9110, 10.2.3)."""
    header = http.headers.get("retry-after") if http is not None else None
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _detail(error: BaseException) -> str:
    """Return the provider's message as one short line without keys, known or by their looks."""
    message = " ".join(str(error).split("Traceback")[0].split())
    message = re.sub(r"^(?:[\w.]*(?:Exception|Error)(?:\s-|:)\s+)+", "", message)
    for name, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(name):
            message = message.replace(value, "***")
    return _SECRET_LOOK.sub("***", message)[:200] or type(error).__name__
