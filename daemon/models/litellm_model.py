"""litellm model: asks a language model once for a dream, through litellm and within a deadline.

`Metered(LitellmModel(...))` is what a dream is given: every try passes the ceilings and is charged.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from daemon.models.errors import (
    CallContext,
    SchemaRefusedError,
    UnusableReplyError,
    explain,
    lost_answer,
    missing_keys,
)
from daemon.models.known import known_model, knows_provider, usd_of
from daemon.models.litellm_import import Foreign, load_litellm
from graphs.ports import Answer, Request
from state.budget import Spend
from state.errors import ModelError

UNKNOWN_WINDOW = 32_768
"""Tokens of context that are assumed of a model which litellm does not know."""

GRACE_SECONDS = 0.5  # the client's own timeout, which closes the connection, comes first where it works


class LitellmModel:
    """Any model of litellm's providers; keys come from the environment alone and are in no message.

    Dollars are litellm's list price. For a model that its table does not know they are 0: a local model costs
    nothing, another has an unknown price, and the ceilings on tokens bind.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        timeout_seconds: float = 120.0,
        max_output_tokens: int = 4000,
    ) -> None:
        self.name = name
        self.api_base = api_base
        self.timeout_seconds = timeout_seconds
        self.max_output_tokens = max_output_tokens
        self.schema_refused = False  # by its provider, since this was made

    @cached_property
    def context_window(self) -> int:
        """Tokens that the model reads at once, by litellm's table, else `UNKNOWN_WINDOW`."""
        entry = known_model(load_litellm(), self.name) or {}
        return int(entry.get("max_input_tokens") or entry.get("max_tokens") or UNKNOWN_WINDOW)

    @property
    def takes_schema(self) -> bool:
        """Whether a request's schema is sent as structured output: litellm says so and no provider has refused it."""
        return not self.schema_refused and bool(load_litellm().supports_response_schema(model=self.name))

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost: all of the request and an answer at the limit."""
        tokens_in = self._tokens_in(request)
        usd = usd_of(load_litellm(), self.name, tokens_in, self.max_output_tokens)
        return Spend(calls=1, tokens=tokens_in + self.max_output_tokens, usd=usd)

    def ask(self, request: Request) -> Answer:
        """Return one answer, with text in it.

        Raise TransientError when trying again may help, UnusableReplyError for an answer without readable text, and
        ModelError for the rest; the first two carry what the try may have cost.
        """
        litellm = load_litellm()
        self._require_provider(litellm)
        structured = request.schema is not None and self.takes_schema
        try:
            return self._try(litellm, request, structured=structured)
        except SchemaRefusedError:
            answer = self._try(litellm, request, structured=False)
        self.schema_refused = True
        return answer

    def _try(self, litellm: Foreign, request: Request, *, structured: bool) -> Answer:
        arguments = self._arguments(litellm, request, structured=structured)
        started = time.monotonic()

        def most() -> Answer:
            return lost_answer(
                self.name, self.worst_case(request), self.max_output_tokens, time.monotonic() - started
            )

        context = CallContext(self.name, self.api_base, self.timeout_seconds, structured, most)
        try:
            response = _within(self.timeout_seconds + GRACE_SECONDS, lambda: litellm.completion(**arguments))
        except Exception as error:  # noqa: BLE001 - litellm's adapters raise anything; `explain` sorts it
            failure = explain(litellm, error, context)
        else:
            return self._read(litellm, request, response, time.monotonic() - started)
        # Raised outside of the handler, so that the original exception, which may quote a key, is not its context.
        raise failure

    def _arguments(self, litellm: Foreign, request: Request, *, structured: bool) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": role, "content": text} for role, text in request.messages],
            "timeout": self.timeout_seconds,
            "max_tokens": self.max_output_tokens,
            "max_retries": 0,  # `Metered` counts and pays for retries: the provider's client may not add its own
        }
        if self.api_base is not None:
            arguments["api_base"] = self.api_base
            if any(key.endswith("_API_KEY") for key in missing_keys(litellm, self.name)):
                arguments["api_key"] = "none"  # a local server seldom needs one, and the client insists
        if structured:
            schema = {"name": request.schema_name, "schema": request.schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        return arguments

    def _read(self, litellm: Foreign, request: Request, response: Foreign, seconds: float) -> Answer:
        choices = getattr(response, "choices", None)
        choice = choices[0] if choices else None
        text = (choice.message.content if choice is not None else None) or ""
        finish_reason = str(choice.finish_reason) if choice is not None else "none"
        usage = getattr(response, "usage", None)
        # A negative figure would be taken off what was spent today.
        tokens_in = max(0, getattr(usage, "prompt_tokens", 0) or 0)
        tokens_out = max(0, getattr(usage, "completion_tokens", 0) or 0)
        is_reported = tokens_in > 0 and (tokens_out > 0 or not text)
        if is_reported:
            usd = usd_of(litellm, self.name, tokens_in, tokens_out, response)
        else:
            tokens_out = int(litellm.token_counter(model=self.name, text=text))
            tokens_in = tokens_in or self._tokens_in(request)
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


def _within(seconds: float, call: Callable[[], Foreign]) -> Foreign:
    """Return the call's value; raise TimeoutError after so many seconds whatever the call does.

    Providers' clients bound each read, not the whole answer: a server that drips would hold a dream for ever. The
    thread that is left behind ends with its connection and keeps no process alive.
    """
    future: Future[Foreign] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, name="dreamd-model-call", daemon=True).start()
    return future.result(seconds)
