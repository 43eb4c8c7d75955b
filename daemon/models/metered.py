"""Metered model: checks each call against the ceilings, records it, and pays for no request twice."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from daemon.models.errors import TransientError, UnusableReplyError
from graphs.ports import Answer, Model, Request
from state.budget import Limits, Spend, check


class PricedModel(Model, Protocol):
    """A model with an upper bound on what a call may cost."""

    def worst_case(self, request: Request) -> Spend:
        """The most that one try may cost."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One try that was or may have been paid for. Only a `usable` one may be replayed."""

    digest: str
    request: Request
    answer: Answer
    usable: bool

    @property
    def spend(self) -> Spend:
        """What it cost."""
        return Spend(calls=1, tokens=self.answer.tokens_in + self.answer.tokens_out, usd=self.answer.usd)


def digest(model: str, request: Request) -> str:
    """SHA-256 (hex) of the model and the request, equal in every process."""
    parts = [model, request.messages, request.schema, request.schema_name]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Metered:
    """The calls of one dream to one model; build one for each dream.

    `record` makes a call durable before the answer is returned, so that nothing is lost by a kill; `replay` returns
    the usable answer recorded for the same request of the same dream, so that no request is made twice. `before` is
    what the dream had spent before it was interrupted, `today` reads what the day has cost, recorded calls included;
    `allow` raises CeilingError when a call could pass the ceiling of all workspaces together. A failed connection is
    free; a try that timed out is charged as if it had been answered at full length.
    """

    def __init__(
        self,
        model: PricedModel,
        limits: Limits,
        *,
        record: Callable[[Call], None],
        replay: Callable[[str], Answer | None],
        today: Callable[[], Spend],
        before: Spend = Spend(),  # noqa: B008 - a frozen value
        allow: Callable[[Spend], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = model.name
        self.spent = before
        self._model = model
        self._limits = limits
        self._record = record
        self._replay = replay
        self._today = today
        self._allow = allow
        self._clock = clock
        self._started = clock()

    @property
    def context_window(self) -> int:
        """Tokens that the model reads at once."""
        return self._model.context_window

    def ask(self, request: Request) -> Answer:
        """The recorded answer to the same request, else a new one. Raises CeilingError if it could cost too much."""
        key = digest(self.name, request)
        if (recorded := self._replay(key)) is not None:
            return recorded
        about_to = self._model.worst_case(request)
        check(
            self._limits,
            dream=self.spent,
            today=self._today(),
            seconds=self._clock() - self._started,
            about_to=about_to,
        )
        self._allow(about_to)
        try:
            answer = self._model.ask(request)
        except (TransientError, UnusableReplyError) as error:
            if error.answer is not None:
                self._charge(Call(key, request, error.answer, usable=False))
            raise
        self._charge(Call(key, request, answer, usable=True))
        return answer

    def _charge(self, call: Call) -> None:
        self.spent += call.spend
        self._record(call)
