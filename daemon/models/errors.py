"""Model errors: what a call of a model fails with, and what it may have cost."""

from graphs.ports import Answer
from state.budget import Spend
from state.errors import ModelError, ReplyError


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
