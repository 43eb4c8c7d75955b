"""Answers in which there is nothing to read, or not to the end."""

import json

from tests.support.gallery.kinds import Kind, Request, table
from tests.support.model_characters import cut_off, good, markdown, megabyte, one_word, prompt_of, prose, tool_json
from tests.support.scripted_model import Reply, tool_call

_SCHEMA = {"type": "object", "properties": {"operations": {"type": "array"}}, "required": ["operations"]}
_REFUSAL = "I'm sorry, but I can't help with that. As a language model I do not keep memories of users."
_THOUGHTS = {"reasoning_content": "Let me think about the lines one by one. " * 50}
_XML = '<?xml version="1.0"?><memory><add section="The Bond" cites="N1">{}</add></memory>'
_YAML = "operations:\n  - op: evict\n    line: L1\n    topic: tea\n    cites: [L1]\nconsumed: [N1]\n"


def _half(text: str) -> str:
    return text[: len(text) // 2]


def cut_unsaid(request: Request, number: int) -> str:
    """An answer that stops in the middle of an operation, and says that it is whole."""
    whole = good(request, number)
    return whole[: whole.find('"cites"') + 9]


_CONSTANT: dict[str, Reply | str] = {
    "empty: Not a character.": "",
    "blank: White space and what shows nothing.": " \n\t\u200b\ufeff\n" * 40,
    "null: Content that is null.": Reply(content=None),
    "refusing: A refusal, politely.": _REFUSAL,
    "withheld: The provider's filter took the answer away.": Reply(content=None, finish_reason="content_filter"),
    "reasoning: Thoughts, and no answer.": Reply(content=None, message=_THOUGHTS),
    "html: The page of a proxy.": Reply(
        body=b"<html><h2>The Bond</h2><p>502 Bad Gateway</p></html>", content_type="text/html"
    ),
    "yaml: The answer as YAML.": _YAML,
    "csv: The answer as a table.": "op;section;text;cites\nadd;The Bond;The user likes tea.;N1\nevict;The Bond;;L1\n",
    "deeply nested: Brackets, a hundred thousand of them, in the list of operations.": (
        '{"operations": ' + "[" * 100_000 + "]" * 100_000 + ', "consumed": ["N1"]}'
    ),
    "many openings: Thousands of objects that never end.": '{"operations": [{"op": ' * 8_000,
    "repeating itself: A loop that ends at the token limit.": Reply("The user likes tea. " * 9_000, "length"),
    "schema as answer: The schema that was asked for, instead of something that has it.": json.dumps(_SCHEMA),
}
KINDS: tuple[Kind, ...] = (
    *(one_word, prose, cut_off, cut_unsaid, megabyte, tool_json),
    *table({row: lambda _r, _n, said=said: said for row, said in _CONSTANT.items()}),  # type: ignore[misc]
    *table({
        "thinking aloud: Thoughts that never end, with an answer in them that is not one.": lambda r, n: (
            f"<think>I could say {good(r, n)} but I will first evict everything and then"
        ),
        "cut at a tenth: An answer that stops in its first operation, and says so.": lambda r, n: Reply(
            good(r, n)[: max(20, len(good(r, n)) // 10)], finish_reason="length"
        ),
        "cut before its end: An answer without its last two brackets.": lambda r, n: good(r, n)[:-2],
        "cut document: A document that stops in its fourth section at the token limit.": lambda r, n: Reply(
            _half(markdown(r, n)), finish_reason="length"
        ),
        "cut document unsaid: One that stops there, and says that it is whole.": lambda r, n: _half(markdown(r, n)),
        "xml: The answer as XML.": lambda r, _: _XML.format(prompt_of(r)[:200].replace("<", "&lt;")),
        "echo of the prompt: The question as the answer.": lambda r, _: prompt_of(r),
        "echo of the system: The instructions as the answer, their example included.": lambda r, _: str(
            r["messages"][0]["content"]
        ),
        "tool called: A good answer as the arguments of a tool nobody offered.": lambda r, n: tool_call(good(r, n)),
    }),
)  # fmt: skip
