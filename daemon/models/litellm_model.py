"""litellm model: asks a language model once for a dream, through litellm and within a deadline.

Dreams use it inside `Metered`, which checks the ceilings before every try and charges it.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from daemon.models.errors import PartRefusedError, TransientError, UnusableReplyError, lost_answer
from daemon.models.known import (
    Foreign,
    known_model,
    knows_provider,
    load_litellm,
    missing_keys,
    usd_of,
    without_keys,
)  # fmt: skip
from graphs.ports import Answer, Request
from state.budget import Spend
from state.errors import ModelError

Messages = tuple[tuple[str, str], ...]

UNKNOWN_WINDOW = 32_768
"""The context window in tokens assumed for a model that litellm does not know."""

# The parts of a request that some providers refuse, and take in another form or not at all.
_SCHEMA, _MAX_TOKENS, _SYSTEM = "structured output", "max_tokens", "a system message"
_NO_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)\w*[^.]{0,30}\bnot\b|(?:not|n't|un)\s?support\w*[^.]{0,20}\bsystem\b"
    r"|roles must alternate",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content.?(?:policy|filter|management policy)|safety system|was flagged|inappropriate content|data_inspection",
    re.IGNORECASE,
)
MOST_TIMES = 10
"""A provider's count of tokens that is so many times larger than ours is not believed."""
GRACE_SECONDS = 0.5  # lets the client's own timeout, which closes the connection, come first if it works


@dataclass(eq=False, kw_only=True)
class LitellmModel:
    """Any model of litellm's providers. API keys come only from the environment and appear in no message.

    Dollars are litellm's list price, 0 for models not in its table: local ones, which cost nothing, and those of
    unknown price, which only the token ceilings limit.
    """

    name: str = field(kw_only=False)
    api_base: str | None = None
    timeout_seconds: float = 120.0
    max_output_tokens: int = 4000
    left_out: frozenset[str] = field(
        default=frozenset(), init=False
    )  # refused by the provider, since it was first asked

    @cached_property
    def context_window(self) -> int:
        """Return the model's context window in tokens by litellm's table, else `UNKNOWN_WINDOW`."""
        entry = known_model(load_litellm(), self.name) or {}
        return int(entry.get("max_input_tokens") or entry.get("max_tokens") or UNKNOWN_WINDOW)

    @property
    def takes_schema(self) -> bool:
        """Return whether to request structured output: litellm lists it and the provider has not refused it."""
        return _SCHEMA not in self.left_out and bool(load_litellm().supports_response_schema(model=self.name))

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost: the whole request and an answer of maximal length."""
        tokens_in = self._tokens_in(request)
        usd = usd_of(load_litellm(), self.name, tokens_in, self.max_output_tokens)
        return Spend(calls=1, tokens=tokens_in + self.max_output_tokens, usd=usd)

    def ask(self, request: Request) -> Answer:
        """Return one answer, which is never empty.

        Raise TransientError if a retry may help, UnusableReplyError for an answer without readable text, ModelError
        otherwise; the first two carry what the try may have cost.
        """
        litellm = load_litellm()
        self._require_provider(litellm)
        known = left_out = self.left_out if self.takes_schema else self.left_out | {_SCHEMA}
        while True:
            try:
                answer = self._try(litellm, request, left_out)
            except PartRefusedError as refused:  # each part once
                left_out |= {refused.part}
            else:
                self.left_out |= left_out - known
                return answer

    def _try(self, litellm: Foreign, request: Request, left_out: frozenset[str]) -> Answer:
        arguments = self._arguments(litellm, request, left_out)
        started = time.monotonic()
        try:
            response = _within(self.timeout_seconds + GRACE_SECONDS, lambda: litellm.completion(**arguments))
        except Exception as error:  # noqa: BLE001 - litellm's adapters raise anything; `_explain` sorts it
            seconds = time.monotonic() - started
            most = lost_answer(self.name, self.worst_case(request), self.max_output_tokens, seconds)
            failure = self._explain(litellm, error, most, left_out)
        else:
            if response is not None:
                return self._read(litellm, request, response, time.monotonic() - started)
            # litellm has put the messages in other orders, in vain.
            failure = ModelError(f"{self._place} refused the order of the messages", "use another model.")
            if _SYSTEM not in left_out:
                failure = PartRefusedError(_SYSTEM, failure.what)
        # Raised outside the handler, so that the original exception, which may quote a key, is not its context.
        raise failure

    def _arguments(self, litellm: Foreign, request: Request, left_out: frozenset[str]) -> dict[str, Any]:
        messages = _without_system(request.messages) if _SYSTEM in left_out else request.messages
        limit = "max_completion_tokens" if _MAX_TOKENS in left_out else "max_tokens"
        arguments: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": role, "content": text} for role, text in messages],
            "timeout": self.timeout_seconds,
            limit: self.max_output_tokens,
            "max_retries": 0,  # `Metered` retries and charges each try; the client must not retry
        }
        if self.api_base is not None:
            arguments["api_base"] = self.api_base
            if any(key.endswith("_API_KEY") for key in missing_keys(litellm, self.name)):
                arguments["api_key"] = "none"  # local servers seldom need a key, but the client insists on one
        if request.schema is not None and _SCHEMA not in left_out:
            schema = {"name": request.schema_name, "schema": request.schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        return arguments

    def _read(self, litellm: Foreign, request: Request, response: Foreign, seconds: float) -> Answer:
        choices = getattr(response, "choices", None)
        choice = choices[0] if choices else None
        text = _said(choice.message, request) if choice is not None else ""
        finish_reason = str(choice.finish_reason) if choice is not None else "none"
        usage = getattr(response, "usage", None)
        # A negative count would reduce today's spend.
        tokens_in = max(0, getattr(usage, "prompt_tokens", 0) or 0)
        tokens_out = max(0, getattr(usage, "completion_tokens", 0) or 0)
        most = MOST_TIMES * (self._tokens_in(request) + max(self.max_output_tokens, len(text)))
        is_reported = 0 < tokens_in < most and (0 < tokens_out < most or not text)
        if is_reported:
            usd = usd_of(litellm, self.name, tokens_in, tokens_out, response)
        else:
            tokens_out = int(litellm.token_counter(model=self.name, text=text))
            tokens_in = tokens_in if 0 < tokens_in < most else self._tokens_in(request)
            usd = usd_of(litellm, self.name, tokens_in, tokens_out)
        answer = Answer(
            text, self.name, tokens_in, tokens_out, usd, finish_reason, seconds, estimated=not is_reported
        )
        if not text.strip():
            raise UnusableReplyError(*self._explain_empty(choice), answer)
        return answer

    def _tokens_in(self, request: Request) -> int:
        said = "\n".join((*(text for _, text in request.messages), str(request.schema or "")))
        return int(load_litellm().token_counter(model=self.name, text=said)) + 20

    def _explain_empty(self, choice: Foreign) -> tuple[str, str]:
        if choice is None:
            return f"{self.name} answered no choice", "try again, or use another model."
        if choice.message.tool_calls or choice.message.function_call:
            return f"{self.name} called a tool instead of answering", "use a model that follows instructions."
        if choice.finish_reason == "length":
            used = f"{self.name} used all {self.max_output_tokens} tokens before its answer began"
            return used, "raise model.max_output_tokens."
        if choice.finish_reason == "content_filter":
            return f"{self.name} withheld its answer by a content filter", "use another model."
        if getattr(choice.message, "reasoning_content", None):
            return f"{self.name} reasoned and did not answer", "raise model.max_output_tokens, or use another model."
        return f"{self.name} answered nothing", "try again, or use another model."

    def _require_provider(self, litellm: Foreign) -> None:
        if not knows_provider(litellm, self.name, self.api_base):
            raise ModelError(
                f"model.name {self.name!r} names no provider that litellm knows",
                f"write provider/model, for example openai/{self.name} with model.api_base, or ollama/{self.name}.",
            )

    def _explain(self, litellm: Foreign, error: BaseException, most: Answer, left_out: frozenset[str]) -> ModelError:
        """Translate an exception of litellm; `most` is the most that the try may have cost.

        litellm raises the same class and status for an unreadable answer, a broken connection and a server's 500. The
        chain of causes tells them apart: it has httpx's HTTPStatusError exactly if a server answered with an error.
        """
        import httpx

        chain = tuple(_chain(error))
        http = next((link.response for link in chain if isinstance(link, httpx.HTTPStatusError)), None)
        failure = self._without_an_answer(litellm, error, chain, most) if http is None else None
        return failure or self._refused(litellm, error, http, left_out)

    @property
    def _place(self) -> str:
        """Return the model and its address, without a login in the address."""
        if self.api_base is None:
            return self.name
        parts = urlsplit(self.api_base)
        port = f":{parts.port}" if parts.port else ""
        return f"{self.name} at {parts.scheme}://{parts.hostname}{port}{parts.path}"

    def _without_an_answer(
        self, litellm: Foreign, error: BaseException, chain: tuple[BaseException, ...], most: Answer
    ) -> ModelError | None:
        import httpx

        place = self._place
        if any(isinstance(link, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout) for link in chain):
            return TransientError(f"{place} cannot be reached", "check model.api_base, the network and the server.")
        if isinstance(error, TimeoutError | litellm.Timeout):
            what = f"{place} did not answer within {self.timeout_seconds:g} s"
            return TransientError(what, "raise model.timeout_seconds, or use a faster model.", answer=most)
        if broken := next((link for link in chain if isinstance(link, httpx.TransportError)), None):
            # It broke in the middle of an answer, which was already generated.
            answer = most if "message body" in str(broken) else None
            return TransientError(f"{place} broke the connection off", "see the server's log.", answer=answer)
        if self.api_base is None and (missing := missing_keys(litellm, self.name)):
            return ModelError(f"{place}: its key is missing", _set_keys(missing))
        # For an unreadable 200, adapters raise a 500, a 422 or no status. A missing package fails before sending.
        is_json = any(isinstance(link, json.JSONDecodeError) for link in chain)
        is_status = getattr(error, "status_code", None) in (None, 200, 422, 500)
        if (is_json or is_status) and not any(isinstance(link, ImportError) for link in chain):
            what = f"{place} answered what is no chat completion"
            return UnusableReplyError(what, "check model.api_base (often it ends in /v1).", most)
        return None

    def _refused(self, litellm: Foreign, error: BaseException, http: Foreign, left_out: frozenset[str]) -> ModelError:
        """Return the error for a refusal, with advice: the first row of the table that fits."""
        status = int(http.status_code if http is not None else getattr(error, "status_code", None) or 0)
        detail, text = _detail(error), http.text if http is not None and http.is_stream_consumed else ""
        used_up = status == 429 and re.search(r"insufficient_quota|billing", detail + text) is not None
        if status == 429 and not used_up:
            what, advice = "is limiting the rate of requests", "wait, or raise the limit with the provider."
            return TransientError(f"{self._place} {what}", advice, retry_after=_retry_after(http))
        if status > 500 or (http is not None and status in (408, 409, 425, 500)):
            return TransientError(f"{self._place} failed ({status})", "try later.", retry_after=_retry_after(http))
        missing = missing_keys(litellm, self.name) if status in (401, 403) else []
        is_too_long = isinstance(error, litellm.ContextWindowExceededError) or status == 413
        is_too_long = is_too_long or re.search("context[_ ]length", text) is not None
        said = f"{error} {text}"
        is_filtered = status in (400, 403, 422) and _FILTERED.search(said) is not None
        if is_filtered or isinstance(error, litellm.ContentPolicyViolationError):
            unpaid = Answer("", self.name, 0, 0, 0.0, "content_filter", 0.0, estimated=False)
            what = f"{self._place} refused the content by its policy: {detail}"
            return UnusableReplyError(what, "use another model.", unpaid)
        rows = (
            (is_too_long, "takes no request as long as this one",
             "lower limits.tokens_per_dream, or use a model with a larger context window."),
            (bool(missing), "refuses it, as its key is missing", _set_keys(missing)),
            (status in (401, 403), f"does not accept the key ({status})",
             "check the provider's key in dreamd's environment."),
            (300 <= status < 400,
             f"answered with a redirect{_redirect_target(http)} ({status}), which is not followed",
             "set model.api_base to the address that is meant."),
            (status == 404, "is not known there (404)", "check model.name and model.api_base."),
            (used_up, "has used up the account's quota (429)", "see the provider's billing page."),
        )  # fmt: skip
        for fits, what, advice in rows:
            if fits:
                return ModelError(f"{self._place} {what}", advice)
        parts = (
            (_MAX_TOKENS, "max_completion_tokens" in said),
            (_SYSTEM, _NO_SYSTEM.search(said) is not None),
            (_SCHEMA, True),  # its refusal has no common words
        )
        if status in (400, 422) and (part := next((one for one, fits in parts if fits and one not in left_out), "")):
            return PartRefusedError(part, f"{self._place} refused {part} ({status}): {detail}")
        verb = "refused the request" if http is not None else "could not be asked"
        return ModelError(f"{self._place} {verb} ({status or type(error).__name__}): {detail}", "check model.name.")


def _without_system(messages: Messages) -> Messages:
    """Return the messages with the system's words at the beginning of the first of the others."""
    rules = [text for role, text in messages if role == "system"]
    (role, text), *others = [one for one in messages if one[0] != "system"]
    return ((role, "\n\n".join((*rules, text))), *others)


def _said(message: Foreign, request: Request) -> str:
    """Return the text of a message; that of a tool call or of the reasoning if the answer seems to be there."""
    calls = [one.function for one in message.tool_calls or ()] + [message.function_call]
    arguments = "\n".join(str(one.arguments) for one in calls if one is not None)
    content, keys = message.content or "", (request.schema or {}).get("properties", ())
    places = (content, arguments, getattr(message, "reasoning_content", None) or "")
    return next((text for text in places if any(f'"{key}"' in text for key in keys)), content)


def _within(seconds: float, call: Callable[[], Foreign]) -> Foreign:
    """Return the call's result. Raise TimeoutError after this many seconds, whatever the call does.

    Providers' clients limit each read, not the whole answer, so a server that sends slowly could block a dream
    forever. The abandoned thread ends with its connection; as a daemon thread it keeps no process alive.
    """
    future: Future[Foreign] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - `result` raises it again
            future.set_exception(error)

    threading.Thread(target=run, name="dreamd-model-call", daemon=True).start()
    return future.result(seconds)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _set_keys(missing: list[str]) -> str:
    return f"set {' and '.join(missing)} in dreamd's environment."


def _redirect_target(http: Foreign) -> str:
    """Return the scheme, host and port of a redirect's target; the rest may contain secrets."""
    try:
        parts = urlsplit(http.headers.get("location", "")) if http is not None else None
        return f" to {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts and parts.netloc else ""
    except ValueError:
        return ""


def _retry_after(http: Foreign) -> float | None:
    """Return how many seconds the provider asks to wait; the header has seconds or a date (RFC 9110, 10.2.3)."""
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
    """Return the provider's message on one short line, without known keys or texts that look like keys."""
    message = " ".join(str(error).split("Traceback")[0].split())
    message = re.sub(r"^(?:[\w.]*(?:Exception|Error)(?:\s-|:)\s+)+", "", message)
    return without_keys(message)[:200] or type(error).__name__
