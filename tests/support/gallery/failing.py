"""Answers that go wrong on the way: errors, lies about what they cost, streams that stop."""

import json
from typing import Any

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


def free_of_charge(request: dict[str, Any], number: int) -> Reply:
    """A good answer that cost no token."""
    return Reply(good(request, number), usage=(0, 0))


def paid_back(request: dict[str, Any], number: int) -> Reply:
    """A good answer that cost less than nothing."""
    return Reply(good(request, number), usage=(-100_000, -100_000))


def dear(request: dict[str, Any], _number: int) -> Reply:
    """A useless answer that cost as much as a day."""
    return Reply(json.dumps(wrong_ids(request, 1)), usage=(250_000, 250_000))


def counted_in_words(request: dict[str, Any], number: int) -> Reply:
    """A good answer whose cost is told in words."""
    return _completion(good(request, number), usage={"prompt_tokens": "many", "completion_tokens": None})


def several_choices(request: dict[str, Any], number: int) -> Reply:
    """Three answers at once, the good one last."""
    return _completion("no", json.dumps(wrong_ids(request, number)), good(request, number))


def no_choice(request: dict[str, Any], number: int) -> Reply | str:
    """First a completion without an answer, then one that is about something else."""
    return _completion() if number == 1 else json.dumps(wrong_ids(request, number))


def error_with_status_200(request: dict[str, Any], number: int) -> Reply | str:
    """First an error that says that all is well."""
    first = Reply(body=json.dumps({"error": {"message": "overloaded", "code": 529}}).encode())
    return first if number == 1 else json.dumps(wrong_ids(request, number))


def first_busy(request: dict[str, Any], number: int) -> Reply | str:
    """The first request is one too many, and the second is answered with nonsense."""
    return error(429, headers={"Retry-After": "0"}) if number == 1 else json.dumps(wrong_ids(request, number))


def first_broken(request: dict[str, Any], number: int) -> Reply | str:
    """The first request finds a server that fails."""
    return error(500) if number == 1 else good(request, number)


def stopping(request: dict[str, Any], number: int) -> Reply | str:
    """The first answer stops in the middle of its body."""
    return Reply(good(request, number), stop_after=150) if number == 1 else good(request, number)


def bad_request(_request: dict[str, Any], _number: int) -> Reply:
    """The request is refused for good."""
    return error(400, "maximum context length exceeded", "context_length_exceeded")


def no_json(request: dict[str, Any], number: int) -> Reply | str:
    """First a body that is half a completion, then half an answer."""
    first = Reply(body=b'{"choices": [{"message": {"content": "{\\"operations\\": [')
    return first if number == 1 else good(request, number)[:60]


KINDS = (
    free_of_charge,
    paid_back,
    dear,
    counted_in_words,
    several_choices,
    no_choice,
    error_with_status_200,
    first_busy,
    first_broken,
    stopping,
    bad_request,
    no_json,
)
