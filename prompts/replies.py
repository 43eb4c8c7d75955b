"""Replies: parses the model's answers, tolerantly.

A reply is one JSON object, bare, in a code fence, or among other text. Each unreadable operation is refused by
itself. An answer without a list of operations raises ReplyError.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from prompts import quoted
from state.codec import first_problem
from state.document.document import parse
from state.document.operations import Action, Operation, Refusal
from state.document.sections import SectionName
from state.errors import ReplyError

MAX_ANSWER_CHARACTERS = 200_000
MAX_OPERATIONS = 200
MAX_KEYWORDS = 120
MAX_QUOTED = 2_000
MAX_KEYS = 5
MAX_STARTS = 20

_TEXTS = frozenset((Action.ADD, Action.REVISE, Action.MERGE, Action.LEARN))
_LEAVES = frozenset((Action.EVICT, Action.CLOSE))
_DECODER = json.JSONDecoder()
_ID = re.compile(r"[A-Z]\d{1,9}")
_ELEMENT = re.compile(r'\{\s*"(?:op|text)"\s*:')


def _listed(value: object) -> object:
    """Return the value as a list: a single id without brackets becomes one, null becomes empty."""
    return [] if value is None else [value] if isinstance(value, str) else value


_Ids = Annotated[list[str], BeforeValidator(_listed)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class SaidOperation(_Said):
    """One operation as the model says it."""

    op: Literal["add", "revise", "merge", "move", "evict", "close", "recall", "learn"]
    section: str | None = None
    line: str | None = None
    lines: _Ids = Field(default_factory=list)
    text: str | None = None
    topic: str | None = None
    keywords: str | None = None
    pointer: bool | None = None
    importance: float | None = Field(default=None, ge=0, le=1)
    until: date | None = None
    cites: _Ids = Field(default_factory=list)


class SaidReply(_Said):
    """The reply to `dream.md`."""

    operations: list[SaidOperation]
    consumed: list[str] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply: operations (ids unchecked), ids of inputs that need none, and refusals of unreadable parts."""

    operations: tuple[Operation, ...] = ()
    consumed: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()


def read_reply(answer: str, sections: dict[str, SectionName], clean: Callable[[str], str] = str) -> Reply:
    """Parse an answer to `dream.md`. `sections` maps the id of each current line to its section.

    `clean` redacts quotations in refusals, which are stored. Raise ReplyError for an answer without operations.
    """
    if len(answer) > MAX_ANSWER_CHARACTERS:
        raise ReplyError(
            f"the model answered {len(answer):,} characters, more than the {MAX_ANSWER_CHARACTERS:,} that are read"
        )
    answer = _spoken(answer)
    found = _object_with(answer, "operations")
    if found is None:
        raise ReplyError(
            "the answer holds no JSON object with 'operations'; answer with that object and nothing else",
            f"it begins {clean(answer.strip()[:MAX_QUOTED])[:40]!r}",
        )
    said, complete = found
    return _read_operations(said, sections, clean, complete=complete)


def _read_operations(
    said: dict[str, Any], sections: dict[str, SectionName], clean: Callable[[str], str], *, complete: bool
) -> Reply:
    operations, refused = [], []
    raw_operations = said["operations"]
    for raw in raw_operations[:MAX_OPERATIONS]:
        try:
            operations.append(_operation(SaidOperation.model_validate(raw), sections))
        except (ValidationError, ValueError) as error:
            reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
            refused.append(Refusal("shape", "operation", f"{_shown(raw, clean)}: {clean(reason)}"))
    if len(raw_operations) > MAX_OPERATIONS:
        figures = f"{len(raw_operations)} operations, the first {MAX_OPERATIONS} are read; say the others now"
        refused.append(Refusal("shape", "operation", figures))
    if not complete:
        refused.append(Refusal("shape", "operation", f"the answer breaks off after {len(raw_operations)} operations"))
    consumed = said.get("consumed")
    named = (
        dict.fromkeys(_sound(one) for one in consumed if isinstance(one, str)) if isinstance(consumed, list) else {}
    )
    return Reply(tuple(operations), tuple(named), tuple(refused))


def _operation(said: SaidOperation, sections: dict[str, SectionName]) -> Operation:
    action = Action(said.op)
    lines = tuple(dict.fromkeys(map(_named, ([said.line] if said.line else []) + said.lines)))
    cites = tuple(dict.fromkeys(map(_named, said.cites)))
    text = (said.topic or said.text or "") if action is Action.EVICT else (said.text or "")
    section = _section(said.section)
    if said.section and section is None:
        raise ValueError(f"there is no section {said.section[:60]!r}")
    if lines and (section is None or action in _LEAVES) and action is not Action.MOVE:
        section = sections.get(lines[0])
    if section is None and action is Action.LEARN:
        section = SectionName.CONTEXT
    if section is None:
        raise ValueError(f"there is no {lines[0]}" if lines and action is not Action.MOVE else "it needs a section")
    if action in _TEXTS and not text:
        raise ValueError("it needs a text")
    if action is Action.RECALL and section is SectionName.POINTERS:
        section = SectionName.CONTEXT
    until = said.until.isoformat() if said.until else ""
    keywords, pointer = " ".join((said.keywords or "").split())[:MAX_KEYWORDS], said.pointer is not False
    return Operation(action, section, text, lines, cites, said.importance, until, keywords, pointer)


def _named(id_: str) -> str:
    """Return a well-formed id unchanged, and '?' for anything else."""
    return id_ if _ID.fullmatch(id_) else "?"


def _section(name: str | None) -> SectionName | None:
    if name is None:
        return None
    return next((part.name for part in parse(f"## {name.strip('# ')}\n").parts), None)


def _spoken(answer: str) -> str:
    """Drop the model's thinking, up to `</think>`, and replace lone surrogates, which no file can hold."""
    return _sound(answer.rpartition("</think>")[2])


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _shown(raw: object, clean: Callable[[str], str]) -> str:
    """Return the beginning of an operation, to be quoted in a refusal."""
    try:
        return clean(quoted(raw)[:MAX_QUOTED])[:160]
    except RecursionError:
        return "an operation of a thousand brackets"


def _object_with(answer: str, key: str) -> tuple[dict[str, Any], bool] | None:
    """Find the first JSON object with a list under `key`, and return whether it is complete.

    Without one, take the complete elements of such a list from a truncated or broken object.
    """
    for start in _starts(answer, key):
        try:
            value, _ = _DECODER.raw_decode(answer, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get(key), list):
            return value, True
    found = _elements(answer, key)
    return ({key: found[0]}, found[1]) if found is not None else None


def _starts(answer: str, key: str) -> Iterator[int]:
    """Yield where an object with this key may begin: at braces before the key's first occurrences, nearest first."""
    places = [match.start() for match in islice(re.finditer(rf'"{key}"\s*:', answer), MAX_KEYS)]
    for place in places:
        at = place
        for _ in range(MAX_STARTS):
            at = answer.rfind("{", 0, at)
            if at < 0:
                break
            yield at


def _elements(answer: str, key: str) -> tuple[list[Any], bool] | None:
    """Return the list of a broken object, and whether its end was reached; None without a list.

    A broken element that is followed by another one is represented by its first 160 characters.
    """
    opening = re.compile(rf'"{key}"\s*:\s*\[').search(answer)
    if opening is None:
        return None
    elements, at = list[Any](), opening.end()
    while True:
        while at < len(answer) and answer[at] in " \t\r\n,":
            at += 1
        if answer[at : at + 1] == "]":
            return elements, True
        try:
            element, at = _DECODER.raw_decode(answer, at)
        except (ValueError, RecursionError):
            following = _ELEMENT.search(answer, at + 1)
            if following is None or len(elements) > MAX_OPERATIONS:
                return elements, False
            element, at = answer[at : at + 160], following.start()
        elements.append(element)


def _strict(schema: Any) -> Any:  # noqa: ANN401 - JSON has no better type
    """Make a JSON schema strict, as structured output needs it: all fields required, no others, no defaults."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {
        key: _strict(value)
        for key, value in schema.items()
        if key not in {"default", "title", "minLength", "minimum", "maximum", "format"}
    }
    if "properties" in strict:
        strict |= {"required": list(strict["properties"]), "additionalProperties": False}
    return strict


REPLY_SCHEMA: dict[str, Any] = _strict(SaidReply.model_json_schema())
