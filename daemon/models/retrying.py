"""Retrying model: asks again after rate limits, timeouts, broken connections and failing servers."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from daemon.models.errors import TransientError
from graphs.ports import Answer, Model, Request

if TYPE_CHECKING:
    from tenacity import RetryCallState


class Retrying:
    """`model`, asked up to `tries` times within about `total_seconds`.

    Waits 1, 2, 4 … at most 30 s, each with up to 1 s of jitter, or what the provider asks for if that is longer. A
    wait that would pass the total is not begun: the error is raised at once.
    """

    def __init__(
        self,
        model: Model,
        *,
        tries: int = 4,
        total_seconds: float = 300.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = model.name
        self._model = model
        self._tries = tries
        self._total_seconds = total_seconds
        self._sleep = sleep

    @property
    def context_window(self) -> int:
        """Tokens that the model reads at once."""
        return self._model.context_window

    def ask(self, request: Request) -> Answer:
        """The model's answer. Raises its errors; a TransientError that remains says how often the model was asked."""
        import tenacity

        backoff = tenacity.wait_exponential_jitter(initial=1, max=30, jitter=1)

        def wait(state: "RetryCallState") -> float:
            error = state.outcome.exception() if state.outcome else None
            retry_after = error.retry_after if isinstance(error, TransientError) else None
            return max(backoff(state), retry_after or 0.0)

        def is_over(state: "RetryCallState") -> bool:
            passed = max(state.seconds_since_start or 0.0, state.idle_for)
            return state.attempt_number >= self._tries or passed + state.upcoming_sleep > self._total_seconds

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=wait,
            stop=is_over,
            sleep=self._sleep,
            retry_error_callback=_give_up,
        )
        answer: Answer = retrying(self._model.ask, request)
        return answer


def _give_up(state: "RetryCallState") -> Answer:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TransientError)
    hint = f", the provider asks to wait {error.retry_after:.0f} s" if error.retry_after else ""
    tried = f"{error.what} (tries: {state.attempt_number}{hint})"
    raise TransientError(tried, error.advice, retry_after=error.retry_after, answer=error.answer) from None
