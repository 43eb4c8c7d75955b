"""Answers in which there is nothing to read, or not to the end."""

import json
from typing import Any

from tests.support.model_characters import cut_off, good, markdown, megabyte, one_word, prompt_of, prose, tool_json
from tests.support.scripted_model import Reply, tool_call


def empty(_request: dict[str, Any], _number: int) -> str:
    """Not a character."""
    return ""


def blank(_request: dict[str, Any], _number: int) -> str:
    """White space and what shows nothing."""
    return " \n\t\u200b\ufeff\n" * 40


def null(_request: dict[str, Any], _number: int) -> Reply:
    """Content that is null."""
    return Reply(content=None)


def refusing(_request: dict[str, Any], _number: int) -> str:
    """A refusal, politely."""
    return "I'm sorry, but I can't help with that. As a language model I do not keep memories of users."


def withheld(_request: dict[str, Any], _number: int) -> Reply:
    """The provider's filter took the answer away."""
    return Reply(content=None, finish_reason="content_filter")


def reasoning(_request: dict[str, Any], _number: int) -> Reply:
    """Thoughts, and no answer."""
    return Reply(content=None, message={"reasoning_content": "Let me think about the lines one by one. " * 50})


def thinking_aloud(request: dict[str, Any], number: int) -> str:
    """Thoughts that never end, with an answer in them that is not one."""
    return f"<think>I could say {good(request, number)} but I will first evict everything and then"


def cut_at_a_tenth(request: dict[str, Any], number: int) -> Reply:
    """An answer that stops in its first operation, and says so."""
    whole = good(request, number)
    return Reply(whole[: max(20, len(whole) // 10)], finish_reason="length")


def cut_unsaid(request: dict[str, Any], number: int) -> str:
    """An answer that stops in the middle of an operation, and says that it is whole."""
    whole = good(request, number)
    return whole[: whole.find('"cites"') + 9]


def cut_document(request: dict[str, Any], number: int) -> Reply:
    """A document that stops in its fourth section at the token limit."""
    whole = markdown(request, number)
    return Reply(whole[: len(whole) // 2], finish_reason="length")


def cut_document_unsaid(request: dict[str, Any], number: int) -> str:
    """A document that stops in its fourth section, and says that it is whole."""
    whole = markdown(request, number)
    return whole[: len(whole) // 2]


def cut_before_its_end(request: dict[str, Any], number: int) -> str:
    """An answer without its last two brackets."""
    return good(request, number)[:-2]


def xml(request: dict[str, Any], _number: int) -> str:
    """The answer as XML."""
    text = prompt_of(request)[:200].replace("<", "&lt;")
    return f'<?xml version="1.0"?><memory><add section="The Bond" cites="N1">{text}</add></memory>'


def html(_request: dict[str, Any], _number: int) -> Reply:
    """The page of a proxy."""
    return Reply(body=b"<html><h2>The Bond</h2><p>502 Bad Gateway</p></html>", content_type="text/html")


def yaml(_request: dict[str, Any], _number: int) -> str:
    """The answer as YAML."""
    return "operations:\n  - op: evict\n    line: L1\n    topic: tea\n    cites: [L1]\nconsumed: [N1]\n"


def csv(_request: dict[str, Any], _number: int) -> str:
    """The answer as a table."""
    return "op;section;text;cites\nadd;The Bond;The user likes tea.;N1\nevict;The Bond;;L1\n"


def deeply_nested(_request: dict[str, Any], _number: int) -> str:
    """Brackets, a hundred thousand of them, in the list of operations."""
    return '{"operations": ' + "[" * 100_000 + "]" * 100_000 + ', "consumed": ["N1"]}'


def many_openings(_request: dict[str, Any], _number: int) -> str:
    """Fifty thousand objects that never end."""
    return '{"operations": [{"op": ' * 8_000


def repeating_itself(_request: dict[str, Any], _number: int) -> Reply:
    """A loop that ends at the token limit."""
    return Reply("The user likes tea. " * 9_000, finish_reason="length")


def echo_of_the_prompt(request: dict[str, Any], _number: int) -> str:
    """The question as the answer."""
    return prompt_of(request)


def echo_of_the_system(request: dict[str, Any], _number: int) -> str:
    """The instructions as the answer, their example included."""
    return str(request["messages"][0]["content"])


def tool_called(request: dict[str, Any], number: int) -> Reply:
    """A good answer as the arguments of a tool that nobody offered."""
    return tool_call(good(request, number))


def schema_as_answer(_request: dict[str, Any], _number: int) -> str:
    """The schema that was asked for, instead of something that has it."""
    return json.dumps({"type": "object", "properties": {"operations": {"type": "array"}}, "required": ["operations"]})


KINDS = (
    empty,
    blank,
    null,
    one_word,
    prose,
    refusing,
    withheld,
    reasoning,
    thinking_aloud,
    cut_at_a_tenth,
    cut_off,
    cut_unsaid,
    cut_before_its_end,
    cut_document,
    cut_document_unsaid,
    xml,
    html,
    yaml,
    csv,
    deeply_nested,
    many_openings,
    repeating_itself,
    megabyte,
    echo_of_the_prompt,
    echo_of_the_system,
    tool_called,
    tool_json,
    schema_as_answer,
)
