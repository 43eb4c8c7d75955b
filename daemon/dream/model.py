"""Model: the configured model of a dream, limited by the ceilings of its workspace and of all workspaces.

Each try is checked against the ceilings and recorded, and retried if that may help. No request is paid for twice.
"""

import hashlib
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from daemon.dream.answers import messages_of, without_secrets
from daemon.models.errors import TransientError, lost_answer
from daemon.models.keys import KeylessModel, missing_key
from daemon.models.litellm_model import LitellmModel
from daemon.workspace.stores import utc_now
from graphs.ports import Answer, Model, Request
from state.budget import Spend, check, check_day
from state.codec import decode, encode
from state.errors import ModelError
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Call, Ledger

_LONGEST_BACKOFF = 30.0


Hide: TypeAlias = Callable[[ModelError], ModelError]
"""Returns the error to raise in place of a model's error."""


def reveal(error: ModelError) -> ModelError:
    """Return the error itself: nothing of it is hidden."""
    return error


class PricedModel(Model, Protocol):
    """A model with an upper bound on what a call may cost."""

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost."""
        ...


@dataclass(eq=False)
class Metered:
    """The calls of one dream to one model; create one for each dream.

    Each call is in the ledger before it is made, with the most that it may cost, and settled before its answer is
    returned, so that a kill at any moment loses nothing. A usable answer to the same request of the same dream is
    replayed from the ledger, so that no request is made twice. A failed connection is free; a try that timed out is
    charged as if it had been answered at full length.

    Rate limits, timeouts, broken connections and failing servers are retried, up to `tries` times within about
    `total_seconds`. The backoff is 1, 2, 4 … up to 30 s, each with up to 1 s of jitter, or what the provider asks for
    if that is longer; a wait that would exceed the total is not started.
    """

    model: PricedModel
    config: Config
    ledger: Ledger
    dream: str
    hide: Hide = reveal
    clock: Callable[[], float] = time.monotonic
    tries: int = 4
    total_seconds: float = 300.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.name = self.model.name
        self._together = DailySpend(spent_folder(os.environ))
        self._started = self.clock()

    @property
    def context_window(self) -> int:
        """Tokens that the model reads at once."""
        return self.model.context_window

    def ask(self, request: Request) -> Answer:
        """Return the recorded answer to the same request, else a new one.

        Raise CeilingError if it could cost too much, and the model's errors; a TransientError says how often the
        model was asked.
        """
        if (known := self.ledger.replay(self.dream, digest(self.name, request))) is not None:
            return decode(Answer, known)
        began, slept, tries = time.monotonic(), 0.0, 0
        while True:
            try:
                return self._try(request)
            except TransientError as error:
                failed, tries = error, tries + 1
            pause = max(min(2.0 ** (tries - 1), _LONGEST_BACKOFF) + random.random(), failed.retry_after or 0.0)  # noqa: S311
            if tries >= self.tries or max(time.monotonic() - began, slept) + pause > self.total_seconds:
                hint = f", the provider asks to wait {failed.retry_after:.0f} s" if failed.retry_after else ""
                what = f"{failed.what} (tries: {tries}{hint})"
                raise TransientError(what, failed.advice, retry_after=failed.retry_after, answer=failed.answer)
            self.sleep(pause)
            slept += pause

    def _try(self, request: Request) -> Answer:
        about_to, now = self.model.worst_case(request), utc_now()
        check(
            self.config.limits.ceilings,
            dream=self.ledger.spent(dream=self.dream),
            today=self.ledger.spent(since=day_start(now)),
            seconds=self.clock() - self._started,
            about_to=about_to,
        )
        check_day(self.config.daemon.limits, today=self._together.of(now), about_to=about_to)
        most = _call(lost_answer(self.name, about_to, self.config.model.max_output_tokens, 0.0))
        self._together.add(Spend(1, most.tokens, most.usd), now)
        number = self.ledger.record_call(self.dream, most, now)
        try:
            answer = self.model.ask(request)
        except ModelError as error:
            failed = error
        else:
            self._settle(number, most, self._record_of(request, answer, is_usable=True))
            return answer
        lost = getattr(failed, "answer", None)
        self._settle(number, most, self._record_of(request, lost, is_usable=False) if lost is not None else None)
        # Raised outside the handler, so that the hidden error is not its context.
        raise self.hide(failed)

    def _record_of(self, request: Request, answer: Answer, *, is_usable: bool) -> Call:
        """Return the record of a try that was or may have been paid for. Only a usable one may be replayed."""
        kept = replace(answer, text=without_secrets(answer.text, self.config.redaction))
        return _call(kept, digest(self.name, request), messages_of(request), is_usable=is_usable)

    def _settle(self, number: int, most: Call, call: Call | None) -> None:
        """Replace the most that a try may have cost by what it has."""
        self.ledger.settle_call(number, call)
        tokens, usd = (call.tokens, call.usd) if call is not None else (0, 0.0)
        self._together.add(Spend(0, tokens - most.tokens, usd - most.usd), utc_now())


def digest(model: str, request: Request) -> str:
    """Return the SHA-256 (hex) of the model and the request, equal in every process."""
    parts = [model, request.messages, request.schema, request.schema_name]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _call(answer: Answer, key: str = "", request: str = "", *, is_usable: bool = False) -> Call:
    tokens = answer.tokens_in + answer.tokens_out
    return Call(key, answer.model, encode(answer), is_usable, tokens, answer.usd, request)


def model_for(config: Config, ledger: Ledger, dream: str, hide: Hide) -> Model | None:
    """Return the configured model, with its calls replayed, recorded and limited; None if none is configured."""
    if config.model.name is None:
        return None
    return Metered(priced_model(config, config.model.name), config, ledger, dream, hide)


def priced_model(config: Config, name: str) -> PricedModel:
    """Return the model of this name; its calls are neither recorded nor limited."""
    from daemon.models.command import CommandModel, preset_of

    section = config.model
    seconds, tokens = section.timeout_seconds, section.max_output_tokens
    if preset_of(name):
        return CommandModel(name, config.redaction.of(name), seconds, tokens, section.variables)
    if section.api_base is None and (missing := missing_key(name, os.environ)):
        return KeylessModel(name=name, variable=missing)
    return LitellmModel(name, api_base=section.api_base, timeout_seconds=seconds, max_output_tokens=tokens)
