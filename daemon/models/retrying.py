"""A model that is asked again when that may help: rate limits, timeouts, broken connections, failing servers."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from daemon.models.errors import PassingError
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

    def count(self, text: str) -> int:
        """Tokens of a text, about."""
        return self._model.count(text)

    def ask(self, request: Request) -> Answer:
        """As the model's; a PassingError that is left says how often it was asked."""
        import tenacity

        backoff = tenacity.wait_exponential_jitter(initial=1, max=30, jitter=1)

        def wait(state: "RetryCallState") -> float:
            error = state.outcome.exception() if state.outcome else None
            asked_for = error.retry_after if isinstance(error, PassingError) else None
            return max(backoff(state), asked_for or 0.0)

        def enough(state: "RetryCallState") -> bool:
            passed = max(state.seconds_since_start or 0.0, state.idle_for)
            return state.attempt_number >= self._tries or passed + state.upcoming_sleep > self._total_seconds

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(PassingError),
            wait=wait,
            stop=enough,
            sleep=self._sleep,
            retry_error_callback=_give_up,
        )
        answer: Answer = retrying(self._model.ask, request)
        return answer


def _give_up(state: "RetryCallState") -> Answer:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, PassingError)
    asked_for = f", the provider asks to wait {error.retry_after:.0f} s" if error.retry_after else ""
    tried = f"{error.what} (tries: {state.attempt_number}{asked_for})"
    raise PassingError(tried, error.advice, retry_after=error.retry_after, answer=error.answer) from None
