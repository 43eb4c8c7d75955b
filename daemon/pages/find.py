"""Find: the palette: lines, memories, dreams, settings and acts, by what is typed.

What is typed is in the body of a form alone, for it may be what is to be forgotten.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from pydantic import Field

from daemon.api.operations.dreams import dreams
from daemon.api.operations.memory import lines
from daemon.api.operations.search import memory_search
from daemon.dream.standing import StandingLines
from daemon.journal.summary import local_day, local_time, summary
from daemon.pages.page import UNDOES, Act, Ask, Done, Page
from daemon.pages.settings import GROUPS
from daemon.pages.templates import query
from state.search.dates import periods_in
from state.text.words import normalise

_EACH = 5  # of each kind so many
_RUNS = 60
Text = Annotated[str, Field(max_length=2_000)]


@dataclass(frozen=True, slots=True)
class Found:
    """Something of this `kind`: an address, or an act of a page with its fields; `beside`: shown beside the page."""

    kind: str
    label: str
    address: str = ""
    page: str = ""
    act: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)
    about: str = ""
    beside: bool = False


def _find(ask: Ask) -> Mapping[str, object]:  # noqa: ARG001 - nothing is found before something is typed
    return {"found": [], "text": ""}


def _look(ask: Ask, text: Text = "") -> Done:
    wanted = " ".join(text.split())
    return Done("", replies={"found": list(_every(ask, wanted)), "text": wanted})


def _every(ask: Ask, text: str) -> Iterator[Found]:
    """Yield what is found: what can be done first, if it is said so."""
    if not text:
        return
    yield from _said(ask, text)
    words = normalise(text).split()
    standing = list(_lines(ask(lines), words))
    yield from standing[:_EACH]
    yield from _dreams(ask, text, words)
    yield from (one for one in (*PLACES, *SETTINGS) if _is_about(f"{one.label} {one.about}", words))
    known = {one.label for one in standing}
    reply = ask(memory_search, text, _EACH, look=True)
    for hit in reply.hits if len(words[0]) > 1 else ():
        if not hit.line and hit.text not in known:
            address = f"crystal?{query({'id': hit.id})}"
            yield Found("memory", hit.text, address, about=local_day(hit.created_at, ask.now), beside=True)
    yield Found("search", f"Search everything for “{text}”", f"memory?{query({'query': text})}")


# ------------------------------------------------------------------------------------------------ what can be done

# What is typed, what it does (with the rest of what is typed), and the act of a page, or its address alone.
_DEEDS: Sequence[tuple[re.Pattern[str], str, str, str]] = tuple(
    (re.compile(words, re.IGNORECASE | re.DOTALL), label, page, act)
    for words, label, page, act in (
        (r"(?:note|remember|write down)\b[:\s]*(.+)", "Note: {}", "today", "note"),
        (r"(?:wrong|correct|not true)\b[:\s]*(.+)", "What is wrong: {}", "wrong", "look"),
        (r"(?:forget|erase|delete)\b[:\s]*(.+)", "Forget: {}", "wrong", "trace"),
        (r"dream(?: now)?", "Dream now", "today", "dream"),
        (r"connect\b\s*(.*)", "Connect {}", "settings#agents", ""),
        (r"(?:undo|restore|go back)\b.*|history", "Choose a day to go back to", "dreams", ""),
    )
)
_UNDO = re.compile(r"undo\b.*|take (?:it |that )?back", re.IGNORECASE)
# What is always there, by the words of its label and those beside it.
PLACES: tuple[Found, ...] = (
    Found("page", "Today", "today", about="what is new, what wants your word"),
    Found("page", "Memory", "memory", about="all lines of MEMORY.md"),
    Found("page", "Dreams", "dreams", about="history, restore, cost, spend"),
    Found("page", "Everything that is remembered", "memory?all=true", about="crystals, memories, list"),
    Found("page", "Settings", "settings", about="model, budget, ask, connect, agents, schedule, time zone, doctor"),
)

SETTINGS = (
    Found("setting", "The model that dreams", "settings#model", about="model name, key, try it"),
    Found("setting", "What it may cost", "settings#limits.usd_per_day", about="budget, dollars, limit, spend"),
    *(
        Found("setting", label, f"settings#{key}", about=key)
        for rows in GROUPS.values()
        for key, label in rows.items()
    ),
)


def _said(ask: Ask, text: str) -> Iterator[Found]:
    """Yield the acts that the text asks for."""
    if (undo := ask.undo) and _UNDO.fullmatch(text):
        back = {**undo.fields, UNDOES: "true"}
        yield Found("do", f"Undo {undo.what or 'what was done last'}", page=undo.page, act=undo.act, fields=back)
    for pattern, label, page, act in _DEEDS:
        if match := pattern.fullmatch(text):
            rest = "".join(match.groups()).strip()
            said, fields = label.format(rest or "an agent"), {"text": rest} if rest else {}
            yield Found("do", said, page=page, act=act, fields=fields) if act else Found("do", said, page)
    for day in _days(text, ask.now)[:1]:
        said = local_day(day, ask.now)
        yield Found("do", f"MEMORY.md as of {said}", f"memory?{query({'as_of': f'{day:%Y-%m-%d}'})}")


# ------------------------------------------------------------------------------------------------ what is there


def _lines(standing: StandingLines, words: Sequence[str]) -> Iterator[Found]:
    for section in standing.sections:
        for line in section.lines:
            if line.id and _is_about(line.text, words):
                yield Found("line", line.text, f"line?{query({'id': line.id})}", about=section.name, beside=True)


def _dreams(ask: Ask, text: str, words: Sequence[str]) -> Iterator[Found]:
    """Yield dreams of the day that is named, or that were about these words."""
    days = [day.date() for day in _days(text, ask.now)]
    left = _EACH
    for one in ask(dreams, limit=_RUNS).dreams:
        if one.run.outcome == "skipped" or not left:
            continue
        at, said = one.run.started_at, summary(one)
        if at.date() in days or _is_about(f"{said} {' '.join(one.about)}", words):
            left -= 1
            address = f"dream?{query({'dream': one.run.id[:100]})}"
            yield Found("dream", f"{local_time(at, ask.now)}: {said}", address, about=said.about)


def _days(text: str, now: datetime) -> list[datetime]:
    """Return the days up to now that a text names; without a year the latest such day."""
    found = list[datetime]()
    for period in periods_in(text, now):
        years = (now.year, now.year - 1) if period.year is None else (period.year,)
        for year in years if period.month and period.day else ():
            with suppress(ValueError):  # 30 February
                found.append(now.replace(year=year, month=period.month or 1, day=period.day or 1))
    return [day for day in found if day <= now][:1]


def _is_about(text: str, words: Sequence[str]) -> bool:
    """Return whether each of the words, or its beginning, is in the text."""
    folded = normalise(text)
    return all(word in folded for word in words)


FIND = Page("find", "Find", _find, acts=(Act(_look, "look", reads=True),), under="today")
