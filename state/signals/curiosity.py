"""Curiosity gaps: questions that memory does not answer yet.

They come from searches that found nothing good, from questions in notes, and from whoever asks explicitly.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeVar

from state.text.line import as_line
from state.text.words import content_terms, search_form

if TYPE_CHECKING:
    from state.text.languages.tables import Curiosity, Phrases

QUESTION_CHARACTERS = 200
HALF_LIFE_DAYS = 7.0
MAX_IN_ONE_TEXT = 5
_MOST_JUDGED = 20  # sentences of one text that are asked whether they are orders
_DAY_SECONDS = 86_400.0

# Not questions: code, addresses (their ? starts a query), paths, and operators such as ?. and ?:
_CODE = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|\b[\w+.-]{1,20}://\S+|\bwww\.\S+|(?<!\S)[^\s/]{0,200}/\S{0,300}?\?\S+|"
    r"\(\?[^)\n]{0,200}\)[?*+]?|\s\?\s[^?\n]{1,60}\s:\s|\?(?=[\w.:(=&)*+\\|\[])",
    re.DOTALL,
)
_SENTENCE = re.compile(r"(?<=[.!?;。！？؟;])[\"'”’)]*\s+|(?<=[。！？])|\n+")
_ASKS = re.compile(r"(?<![?？؟])[?？؟]++[\"'”’)\]*_]*+$")


class Cause(StrEnum):
    """Where a gap comes from."""

    EXPLICIT = "explicit"
    QUESTION = "question"
    MISS = "miss"


_WEIGHT = {Cause.EXPLICIT: 4.0, Cause.QUESTION: 2.0, Cause.MISS: 1.0}


@dataclass(frozen=True, slots=True)
class Gap:
    """One open question, and how often it was asked."""

    question: str
    cause: str
    times: int
    first_at: datetime
    last_at: datetime


class RankedQuestion(Protocol):
    """What ranking has to know of an open question."""

    @property
    def question(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def times(self) -> int: ...
    @property
    def last_at(self) -> datetime: ...


Question = TypeVar("Question", bound=RankedQuestion)


def questions_in(text: str) -> tuple[str, ...]:
    """The open questions of a text, at most five, each one line without its bullet.

    Sentences that end in a question mark, "I wonder …", "need to find out …", "TBD" and the like. Code, addresses,
    what is only said to keep a conversation going, and what orders the agent about do not count.
    """
    found: dict[str, str] = {}
    for sentence in islice(filter(_is_meant, _sentences(text)), _MOST_JUDGED):
        if len(found) < MAX_IN_ONE_TEXT:
            found.setdefault(question_key(sentence), as_line(sentence, QUESTION_CHARACTERS))
    return tuple(found.values())


def gap_of_search(query: str) -> str | None:
    """Return the question of a search without a good answer; None for a query that asks nothing.

    >>> missed("deploy keys")
    'What is known about: deploy keys?'
    """
    line = as_line(" ".join(query.split()), QUESTION_CHARACTERS).rstrip("?？؟ .")
    if not content_terms(line):
        return None
    return f"{line}?" if _ASKS.search(query.strip()) else f"What is known about: {line}?"


def question_key(question: str) -> str:
    """What makes two questions one: the folded text without the marks at its end."""
    return search_form(question).rstrip("?？؟!. ")


def rank_questions(questions: Sequence[Question], now: datetime) -> list[Question]:
    """The questions that matter most first, each once (the weightiest of equals stays).

    weight of the cause · log2(1 + times) · 2^(-age / 7 days): an explicit question outweighs a single search that
    found nothing, a search that keeps finding nothing outweighs a question that was asked once.
    """

    def weight(question: Question) -> float:
        age_days = max(0.0, (now - question.last_at).total_seconds() / _DAY_SECONDS)
        return _weight(question.cause) * math.log2(1 + question.times) * math.pow(2.0, -age_days / HALF_LIFE_DAYS)

    ranked = sorted(questions, key=lambda question: (-weight(question), question_key(question.question)))
    return list({question_key(question.question): question for question in reversed(ranked)}.values())[::-1]


def _weight(cause: str) -> float:
    return _WEIGHT[Cause(cause)]


def _is_meant(sentence: str) -> bool:
    asks = _ASKS.search(sentence) or (_phrases("opens").search(sentence) and not _phrases("closed").search(sentence))
    return bool(asks) and not _phatic().fullmatch(sentence.strip("¿?!.？！。 ")) and len(content_terms(sentence)) >= 2


@cache
def _words() -> "Curiosity":
    from state.text.languages.loader import table
    from state.text.languages.tables import Curiosity  # a short command reads no questions

    return table(Curiosity)


@cache
def _phrases(row: str) -> re.Pattern[str]:
    said: Phrases = attrgetter(row)(_words())
    return re.compile(said.pattern, re.IGNORECASE)


@cache
def _phatic() -> re.Pattern[str]:
    known = _words().phatic
    return re.compile("|".join((*known.spaced, *known.unspaced)), re.IGNORECASE)


@cache
def _lead() -> re.Pattern[str]:
    """What may stand before a question in a list."""
    said = rf"(?:(?:{_words().label.pattern})\s*[:：]\s*)?"
    return re.compile(rf"^[\s>#*+-]*(?:\[[ x]\]\s*)?(?:\d{{1,3}}[.)]\s+)?{said}", re.IGNORECASE)


def _sentences(text: str) -> Iterator[str]:
    plain = _CODE.sub(" ", _without_comments(text))
    for sentence in _SENTENCE.split(plain):
        bare = " ".join(_lead().sub("", sentence or "").split())
        if bare:
            yield bare


def _without_comments(text: str) -> str:
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return " ".join((*kept, text[at:]))
