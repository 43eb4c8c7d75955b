"""Answers that go wrong on the way: errors, lies about what they cost, streams that stop."""

import json
from typing import Any

from tests.support.gallery.kinds import Answer, Kind, Request, table
from tests.support.model_characters import good, wrong_ids
from tests.support.scripted_model import Reply, error


def _completion(*contents: str | None, **more: Any) -> Reply:
    """A completion with these choices, and whatever else."""
    choices = [
        {"index": at, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        for at, content in enumerate(contents)
    ]
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "scripted", "choices": choices, **more}
    return Reply(body=json.dumps(body).encode())


def _wrong(request: Request) -> str:
    return json.dumps(wrong_ids(request, 1))


def _first(number: int, first: Answer, then: Answer) -> Answer:
    return first if number == 1 else then


def paid_back(request: Request, number: int) -> Reply:
    """A good answer that cost less than nothing."""
    return Reply(good(request, number), usage=(-100_000, -100_000))


_OVERLOADED = json.dumps({"error": {"message": "overloaded", "code": 529}}).encode()
_HALF = b'{"choices": [{"message": {"content": "{\\"operations\\": ['
KINDS: tuple[Kind, ...] = (
    paid_back,
    *table({
        "free of charge: A good answer that cost no token.": lambda r, n: Reply(good(r, n), usage=(0, 0)),
        "dear: A useless answer that cost as much as a day.": lambda r, _: Reply(_wrong(r), usage=(250_000, 250_000)),
        "counted in words: A good answer whose cost is told in words.": lambda r, n: _completion(
            good(r, n), usage={"prompt_tokens": "many", "completion_tokens": None}
        ),
        "several choices: Three answers at once, the good one last.": lambda r, n: _completion(
            "no", _wrong(r), good(r, n)
        ),
        "no choice: A completion without an answer, then one about something else.": lambda r, n: _first(
            n, _completion(), _wrong(r)
        ),
        "error with status 200: An error that says that all is well.": lambda r, n: _first(
            n, Reply(body=_OVERLOADED), _wrong(r)
        ),
        "first busy: The first request is one too many, the second is answered with nonsense.": lambda r, n: _first(
            n, error(429, headers={"Retry-After": "0"}), _wrong(r)
        ),
        "first broken: The first request finds a server that fails.": lambda r, n: _first(n, error(500), good(r, n)),
        "stopping: The first answer stops in the middle of its body.": lambda r, n: _first(
            n, Reply(good(r, n), stop_after=150), good(r, n)
        ),
        "bad request: The request is refused for good.": lambda _r, _n: error(
            400, "maximum context length exceeded", "context_length_exceeded"
        ),
        "no json: A body that is half a completion, then half an answer.": lambda r, n: _first(
            n, Reply(body=_HALF), good(r, n)[:60]
        ),
    }),
)  # fmt: skip
