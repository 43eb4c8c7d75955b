"""Model errors: how a call of a model can fail, and what the failed call may have cost."""

from graphs.ports import Answer
from state.budget import Spend
from state.errors import ModelError, ReplyError


class TransientError(ModelError):
    """A failure that a retry may overcome. `answer` holds the most that this try may have cost; None if nothing."""

    def __init__(
        self, what: str, advice: str = "", *, retry_after: float | None = None, answer: Answer | None = None
    ) -> None:
        super().__init__(what, advice)
        self.retry_after = retry_after
        self.answer = answer


class UnusableReplyError(ReplyError):
    """An answer without readable text. `answer` holds its cost."""

    def __init__(self, what: str, advice: str, answer: Answer) -> None:
        super().__init__(what, advice)
        self.answer = answer


class PartRefusedError(ModelError):
    """The provider refused a request for this part of it, and may accept it without."""

    def __init__(self, part: str, what: str) -> None:
        super().__init__(what)
        self.part = part


def lost_answer(model: str, worst: Spend, tokens_out: int, seconds: float) -> Answer:
    """Return an empty answer that charges a try without a readable one with the most it may have cost."""
    tokens_in = worst.tokens - tokens_out
    return Answer("", model, tokens_in, tokens_out, worst.usd, "error", seconds, estimated=True)


def discreet(error: ModelError) -> ModelError:
    """Return the error without details of the model or its provider: no address, account or key."""
    if isinstance(error, TransientError):
        what, advice = "the model cannot be asked now", "try again later."
        return TransientError(what, advice, retry_after=error.retry_after, answer=error.answer)
    if isinstance(error, UnusableReplyError):
        return UnusableReplyError("the model answered nothing that can be used", "try again.", error.answer)
    return ModelError("the model refused the request", "ask who runs the service; the log says why.")
