"""Replies: reads the model's answers, tolerantly.

Each operation is judged by itself: values that can mean only one thing are taken, and an operation that is unclear is
refused with the reason. An answer without a list of operations raises ReplyError.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from prompts import quoted
from prompts.json_answers import ACTION_KEYS, Found, find, named
from state.codec import each_text, first_problem, whole
from state.document.document import parse
from state.document.operations import NO_END, Action, Operation, Refusal
from state.document.sections import SectionName
from state.errors import ReplyError
from state.search.dates import day_written

MAX_ANSWER_CHARACTERS = 200_000
MAX_OPERATIONS = 200
MAX_KEYWORDS = 120
MAX_QUOTED = 2_000

_TEXTS = frozenset((Action.ADD, Action.REVISE, Action.MERGE, Action.LEARN))
_LEAVES = frozenset((Action.EVICT, Action.CLOSE))
_ID = re.compile(r"[A-Za-z]\d{1,9}")
# One id or several in a text, with what models put around and between them: "[N1]", "N1, N2", "N1 and L2".
_AROUND = r"[\s\[\](){}\"'`#,;&]*"
_IDS = re.compile(rf"{_AROUND}(?:{_ID.pattern}\b{_AROUND}(?:and\b{_AROUND})?)+")
_NONE = frozenset(("", "none", "null", "nil", "n/a", "na", "-", "unknown", "open", "ongoing", "never"))
_ENDLESS = frozenset((NO_END, "open", "ongoing", "never"))
_LEVELS = {"critical": 0.9, "very high": 0.9, "high": 0.8, "medium": 0.5, "moderate": 0.5, "normal": 0.5, "low": 0.3}
_NUMBER = re.compile(r"(\d{1,3}(?:[.,]\d{1,6})?)\s*(?:(%)|(?:/|of|out of)\s*(1|5|10|100))?")
_ALIASES = {**dict.fromkeys(ACTION_KEYS, "op"), "line": "lines", "cite": "cites"}


def _listed(value: object) -> list[Any]:
    """Return ids as a list: said without brackets, in one text, or in lower case; what is no id becomes '?'."""
    parts = value if isinstance(value, list) else [] if value is None else [value]
    return [one for part in parts for one in (_ids(part) if isinstance(part, str) else [part])]


def _ids(text: str) -> list[str]:
    if _is_none(text):
        return []
    return [one.upper() for one in _ID.findall(text)] if _IDS.fullmatch(text) else ["?"]


def _is_none(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().casefold() in _NONE)


def _given(value: object) -> object:
    return None if _is_none(value) else value


def _day(value: object) -> date | None:
    """Return a date however it is written. Raise ValueError if it can mean two days, or none."""
    if _is_none(value):
        return None
    if (day := day_written(str(value))) is None:
        raise ValueError(f"{value!r:.40} is no certain day; write it like 2026-03-19, or leave it out")
    return day


def _weight(value: object) -> float | None:
    """Return an importance from 0 to 1, said as a number, a share, a level, or on a scale to 10 or 100."""
    if _is_none(value):
        return None
    word = str(value).strip().casefold()
    if word in _LEVELS:
        return _LEVELS[word]
    if (said := _NUMBER.fullmatch(word)) is not None:
        number = float(said[1].replace(",", "."))
        share = number / float(said[3] or (100 if said[2] or number > 10 else 10 if number > 1 else 1))
        if share <= 1:
            return share
    raise ValueError(f"{value!r:.40} is no number from 0 to 1; say one, or leave it out")


_Ids = Annotated[list[str], BeforeValidator(_listed)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class SaidOperation(_Said):
    """One operation as the model says it."""

    op: Annotated[
        Literal["add", "revise", "merge", "move", "weigh", "evict", "close", "recall", "learn"],
        BeforeValidator(lambda value: value.strip().casefold() if isinstance(value, str) else value),
    ]
    section: Annotated[str | None, BeforeValidator(_given)] = None
    lines: _Ids = Field(default_factory=list)
    text: str | None = None
    topic: str | None = None
    keywords: str | None = None
    pointer: Annotated[bool | None, BeforeValidator(_given)] = None
    importance: Annotated[float | None, BeforeValidator(_weight)] = None
    until: Annotated[date | None, BeforeValidator(_day)] = None
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
    answer = whole(answer)
    found = find(answer)
    if found is None:
        raise ReplyError(
            "the answer holds no JSON object with 'operations'; answer with that object and nothing else",
            f"it begins {clean(answer.strip()[:MAX_QUOTED])[:40]!r}",
        )
    return _read_operations(found, sections, clean)


def _read_operations(found: Found, sections: dict[str, SectionName], clean: Callable[[str], str]) -> Reply:
    operations, refused, answered = list[Operation](), list[Refusal](), list[str]()
    for raw in found.operations[:MAX_OPERATIONS]:
        try:
            said = SaidOperation.model_validate(_renamed(raw))
            inputs = [one for one in said.lines if said.op == "close" and one not in sections and one[0] != "L"]
            if inputs:  # an open question that is no line yet
                answered += inputs
                said.lines = [one for one in said.lines if one not in inputs]
            if said.lines or not inputs:
                operation = _operation(said, sections, is_endless=_is_endless(raw))
                operations.append(operation)
        except RecursionError:
            refused.append(Refusal("shape", "operation", "an operation of a thousand brackets"))
        except (ValidationError, ValueError) as error:
            reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
            reason = reason.replace("value error, ", "", 1)  # pydantic's own words
            refused.append(Refusal("shape", "operation", f"{_shown(raw, clean)}: {clean(reason)}"))
    count = len(found.operations)
    if count > MAX_OPERATIONS:
        figures = f"{count} operations, the first {MAX_OPERATIONS} are read; say the others now"
        refused.append(Refusal("shape", "operation", figures))
    if not found.complete:
        figures = f"the answer breaks off after {count} operations, perhaps at model.max_output_tokens"
        refused.append(Refusal("shape", "operation", figures))
    consumed = found.consumed if isinstance(found.consumed, list | str) else []
    ids = (one for one in (*answered, *_listed(consumed)) if isinstance(one, str))
    return Reply(tuple(operations), tuple(dict.fromkeys(ids)), tuple(refused))


def _renamed(raw: object) -> object:
    """Return an operation with the keys of the prompt, and without halves of characters."""
    if not isinstance(raw, dict):
        return raw
    said = named(each_text(raw, whole))
    for other, key in _ALIASES.items():
        if other in said and not said.get(key):
            said[key] = said[other]
    return said


def _is_endless(raw: object) -> bool:
    """Return whether an operation says in words that its line has no last day."""
    until = named(raw).get("until") if isinstance(raw, dict) else None
    return isinstance(until, str) and until.strip().casefold() in _ENDLESS


def _operation(said: SaidOperation, sections: dict[str, SectionName], *, is_endless: bool = False) -> Operation:
    action = Action(said.op)
    if action is Action.MOVE and said.text:  # other words in another section
        action = Action.REVISE
    lines = tuple(dict.fromkeys(said.lines))
    cites = tuple(dict.fromkeys(said.cites))
    text = (said.topic or said.text or "") if action is Action.EVICT else (said.text or "")
    section = _section(said.section)
    if said.section and section is None:
        raise ValueError(f"there is no section {said.section[:60]!r}")
    if lines and (section is None or action in _LEAVES) and action is not Action.MOVE:
        section = sections.get(lines[0])
    if action is Action.LEARN:
        section = SectionName.CONTEXT
    if section is None:
        raise ValueError(f"there is no {lines[0]}" if lines and action is not Action.MOVE else "it needs a section")
    if action in _TEXTS and not text.strip("\ufffd "):
        raise ValueError("it needs a text")
    if action is Action.WEIGH and said.importance is None and said.until is None and not is_endless:
        raise ValueError("it needs an importance or an until")
    until = said.until.isoformat() if said.until else NO_END if is_endless and lines else ""
    keywords, pointer = " ".join((said.keywords or "").split())[:MAX_KEYWORDS], said.pointer is not False
    return Operation(action, section, text, lines, cites, said.importance, until, keywords, pointer)


def _section(name: str | None) -> SectionName | None:
    """Return the section of this name, or the only one with its words: "Bond", "active_context"."""
    if name is None:
        return None
    if (whole := next((part.name for part in parse(f"## {name.strip('# ')}\n").parts), None)) is not None:
        return whole
    words = set(re.findall(r"[a-z]+", name.casefold())) - {"the", "section"}
    among = [one for one in SectionName if words and words <= set(one.value.casefold().split())]
    return among[0] if len(among) == 1 else None


def _shown(raw: object, clean: Callable[[str], str]) -> str:
    """Return the beginning of an operation, to be quoted in a refusal."""
    try:
        return clean(quoted(raw)[:MAX_QUOTED])[:160]
    except RecursionError:
        return "an operation of a thousand brackets"


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
