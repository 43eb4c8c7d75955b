"""Scripts for the scripted model that answer the synthesis prompt: a good model, and bad ones (more: tests/gallery).

Each takes the request (as JSON) and the number of the call, and reads the prompt as a model would.
"""

import json
import re
import threading
from typing import Any

from tests.support.scripted_model import Reply, Script, tool_call

_INPUT = re.compile(r'^([NCIGT]\d+) \(([^)]*)\): (".*")$', re.MULTILINE)
_LINE = re.compile(r'^(L\d+) \(([^)]*)\): (".*")$', re.MULTILINE)


def prompt_of(request: dict[str, Any]) -> str:
    """Return the prompt of the dream, without earlier answers and the replies to them, which follow it."""
    return str(request["messages"][1]["content"])


def inputs_of(request: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (id, label, text) of every input in the prompt."""
    return [(name, label, json.loads(text)) for name, label, text in _INPUT.findall(prompt_of(request))]


def lines_of(request: dict[str, Any]) -> list[tuple[str, bool, str]]:
    """Return (id, pinned, text) of every current line in the prompt."""
    return [(name, "pinned" in label, json.loads(text)) for name, label, text in _LINE.findall(prompt_of(request))]


def good(request: dict[str, Any], _number: int) -> str:
    """Adds a line for each note that is no line yet, and consumes every note."""
    known = {text for _, _, text in lines_of(request)}
    notes = [(name, text) for name, _, text in inputs_of(request) if name.startswith("N")]
    operations = [
        {"op": "add", "section": "Active Context", "text": text[:200], "cites": [name]}
        for name, text in notes
        if text not in known
    ]
    return json.dumps({"operations": operations[:60], "consumed": [name for name, _ in notes]})


def good_when(told: threading.Event, first: int = 10**9) -> Script:
    """A good model that answers the first `first` requests only after `told` is set."""

    def answer(request: dict[str, Any], number: int) -> str:
        assert number > first or told.wait(300)
        return good(request, number)

    return answer


def markdown(request: dict[str, Any], number: int) -> str:
    """A model that can only write Markdown: the whole document, with the notes as new lines."""
    prompt = prompt_of(request)
    sections = re.split(r"^## ", prompt.split("Inputs, in the order")[0], flags=re.MULTILINE)[1:]
    rows = ["# Working Memory State", ""]
    for section in sections:
        name = section.split("\n", 1)[0]
        rows += [f"## {name}", ""] + [f"- {json.loads(text)}" for _, _, text in _LINE.findall(section)] + [""]
        if name == "Active Context":
            rows[-1:-1] = [f"- {text[:200]}" for key, _, text in inputs_of(request) if key.startswith("N")]
    return "```markdown\n" + "\n".join(rows) + "\n```"


def emptied(_request: dict[str, Any], _number: int) -> str:
    """Seven headings and nothing under them."""
    names = ("The Phenotype", "The Bond", "The Niche", "Active Context", "Crystal Pointers", "Curiosity Gaps")
    return "# Working Memory State\n\n" + "\n\n".join(f"## {name}" for name in (*names, "Emerging Skills")) + "\n"


def one_word(_request: dict[str, Any], _number: int) -> str:
    """Done."""
    return "ok"


def prose(_request: dict[str, Any], _number: int) -> str:
    """A friendly report instead of an answer."""
    return (
        "I have read everything carefully. The user seems to be doing well, and I updated the memory as you asked. "
        * 8
    )


def cut_off(request: dict[str, Any], number: int) -> Reply:
    """A good answer that stops in the middle at the token limit."""
    whole = good(request, number)
    return Reply(whole[: len(whole) // 2], finish_reason="length")


def evicting(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Throws 25 lines out at once."""
    lines = [name for name, _, _ in lines_of(request)][:25]
    operations = [{"op": "evict", "line": name, "topic": "old things", "cites": [name]} for name in lines]
    return {"operations": operations, "consumed": [name for name, _, _ in inputs_of(request)]}


def wrong_ids(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Cites what is not there and revises lines that never were."""
    return {
        "operations": [
            {"op": "add", "section": "The Bond", "text": "The user is fond of tea.", "cites": ["N900"]},
            {"op": "revise", "line": "L9000", "text": "The user hates tea.", "cites": ["N1"]},
            {"op": "merge", "section": "The Bond", "lines": ["L9001", "L9002"], "text": "Tea.", "cites": ["L9001"]},
        ],
        "consumed": ["N901"],
    }


def foreign(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Writes everything anew in another language, and about something else."""
    operations = [
        {"op": "revise", "line": name, "text": "Der Benutzer mag gern lange Spaziergänge am Meer.", "cites": ["N1"]}
        for name, _, _ in lines_of(request)[:15]
    ]
    return {"operations": operations, "consumed": ["N1"]}


def megabyte(request: dict[str, Any], _number: int) -> str:
    """A million characters, most of them in one line."""
    return json.dumps(
        {"operations": [{"op": "add", "section": "The Bond", "text": "tea " * 250_000, "cites": ["N1"]}]}
    )


def calling(_request: dict[str, Any], _number: int) -> Reply:
    """Calls a tool that nobody offered."""
    return tool_call(json.dumps({"operations": [], "consumed": ["N1"]}))


def tool_json(request: dict[str, Any], number: int) -> str:
    """The answer inside the JSON of a tool call, as text."""
    return json.dumps({"name": "memory_update", "arguments": json.loads(good(request, number))})


def eroding(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Evicts a tenth of the lines in every dream, and says nothing new."""
    names = [name for name, _, _ in lines_of(request)]
    operations = [
        {"op": "evict", "line": name, "topic": "x", "cites": [name]} for name in names[: len(names) // 10 + 1]
    ]
    return {"operations": operations, "consumed": [name for name, _, _ in inputs_of(request) if name.startswith("N")]}


def doubled(request: dict[str, Any], number: int) -> str:
    """The whole document, with every section twice and the second time empty."""
    return markdown(request, number).removesuffix("```") + emptied(request, number) + "```"


HOSTILE = (
    emptied, one_word, prose, cut_off, evicting, wrong_ids, foreign, megabyte, calling, tool_json, eroding, doubled,
)  # fmt: skip
