"""Metered model: checks each try against the ceilings, records it, tries again, and pays for no request twice."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Protocol

from daemon.models.errors import TransientError, UnusableReplyError
from graphs.ports import Answer, Model, Request
from state.budget import Limits, Spend, check

if TYPE_CHECKING:
    from tenacity import RetryCallState


class PricedModel(Model, Protocol):
    """A model with an upper bound on what a call may cost."""

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost."""
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
    """Return the SHA-256 (hex) of the model and the request, equal in every process."""
    parts = [model, request.messages, request.schema, request.schema_name]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(eq=False, kw_only=True)
class Metered:
    """The calls of one dream to one model; build one for each dream.

    `record` makes a call durable before the answer is returned, so that nothing is lost by a kill; `replay` returns
    the usable answer recorded for the same request of the same dream, so that no request is made twice. `before` is
    what the dream had spent before it was interrupted, `today` reads what the day has cost, recorded calls included;
    `allow` raises CeilingError when a call could pass the ceiling of all workspaces together. A failed connection is
    free; a try that timed out is charged as if it had been answered at full length.

    After rate limits, timeouts, broken connections and failing servers it is asked again, up to `tries` times within
    about `total_seconds`. It waits 1, 2, 4 … at most 30 s, each with up to 1 s of jitter, or what the provider asks
    for if that is longer; a wait that would pass the total is not begun.
    """

    model: PricedModel = field(kw_only=False)
    limits: Limits = field(kw_only=False)
    record: Callable[[Call], None]
    replay: Callable[[str], Answer | None]
    today: Callable[[], Spend]
    before: InitVar[Spend] = Spend()  # noqa: RUF009 - a frozen value
    allow: Callable[[Spend], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    tries: int = 4
    total_seconds: float = 300.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self, before: Spend) -> None:
        self.name = self.model.name
        self.spent = before
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
        if (recorded := self.replay(digest(self.name, request))) is not None:
            return recorded
        import tenacity

        backoff = tenacity.wait_exponential_jitter(initial=1, max=30, jitter=1)

        def wait(state: "RetryCallState") -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(backoff(state), getattr(error, "retry_after", None) or 0.0)

        def is_over(state: "RetryCallState") -> bool:
            passed = max(state.seconds_since_start or 0.0, state.idle_for)
            return state.attempt_number >= self.tries or passed + state.upcoming_sleep > self.total_seconds

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=wait,
            stop=is_over,
            sleep=self.sleep,
            retry_error_callback=_give_up,
        )
        answer: Answer = retrying(self._try, request)
        return answer

    def _try(self, request: Request) -> Answer:
        about_to = self.model.worst_case(request)
        check(
            self.limits,
            dream=self.spent,
            today=self.today(),
            seconds=self.clock() - self._started,
            about_to=about_to,
        )
        self.allow(about_to)
        try:
            answer = self.model.ask(request)
        except (TransientError, UnusableReplyError) as error:
            if error.answer is not None:
                self._charge(request, error.answer, usable=False)
            raise
        self._charge(request, answer, usable=True)
        return answer

    def _charge(self, request: Request, answer: Answer, *, usable: bool) -> None:
        call = Call(digest(self.name, request), request, answer, usable)
        self.spent += call.spend
        self.record(call)


def _give_up(state: "RetryCallState") -> Answer:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TransientError)
    hint = f", the provider asks to wait {error.retry_after:.0f} s" if error.retry_after else ""
    tried = f"{error.what} (tries: {state.attempt_number}{hint})"
    raise TransientError(tried, error.advice, retry_after=error.retry_after, answer=error.answer) from None
