"""Curiosity gaps: questions that memory does not answer yet.

They come from searches without a good result, from questions in notes, and from explicit requests.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from state.text.line import as_line
from state.text.words import SENTENCE_ENDS, content_terms, ends_as_question, search_form

QUESTION_CHARACTERS = 200
HALF_LIFE_DAYS = 7.0
ANSWERED = 2 / 3
_KNOWN = "What is known about: "
MAX_IN_ONE_TEXT = 5
_MOST_JUDGED = 20  # questions of one text that are examined
_DAY_SECONDS = 86_400.0

# Not questions: code, URLs (where ? starts a query), paths, and operators such as ?. and ?:
_CODE = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|\b[\w+.-]{1,20}://\S+|\bwww\.\S+|(?<!\S)[^\s/]{0,200}/\S{0,300}?\?\S+|"
    r"\(\?[^)\n]{0,200}\)[?*+]?|\s\?\s[^?\n]{1,60}\s:\s|\?(?=[\w.:(=&)*+\\|\[])",
    re.DOTALL,
)
_ASKS = re.compile(r"(?<![?？؟])[?？؟]++[\"'”’)\]*_]*+$")
_BULLET = re.compile(r"^[\s>#*+-]*(?:\[[ x]\]\s*)?(?:\d{1,3}[.)]\s+)?")


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


def questions_in(text: str) -> tuple[str, ...]:
    """Return the questions of a text, at most five, each on one line without its bullet.

    A question ends in a question mark and has at least two content words. Code and URLs do not count.
    """
    found: dict[str, str] = {}
    bare = (
        " ".join(_BULLET.sub("", part).split())
        for part in SENTENCE_ENDS.split(_CODE.sub(" ", _without_comments(text)))
    )
    for sentence in [part for part in bare if _ASKS.search(part)][:_MOST_JUDGED]:
        if len(found) < MAX_IN_ONE_TEXT and len(content_terms(sentence)) > 1:
            found.setdefault(question_key(sentence), as_line(sentence, QUESTION_CHARACTERS))
    return tuple(found.values())


def gap_of_search(query: str) -> str | None:
    """Return the question of a search without a good answer; None for a query that asks nothing.

    >>> gap_of_search("deploy keys")
    'What is known about: deploy keys?'
    """
    line = as_line(" ".join(query.split()), QUESTION_CHARACTERS).rstrip("?？؟ .")
    if not content_terms(line):
        return None
    return f"{line}?" if _ASKS.search(query.strip()) else f"{_KNOWN}{line}?"


def topic_of_question(question: str) -> str:
    """Return the words that were searched for, of a question made by `gap_of_search`; else the question itself."""
    return question.removeprefix(_KNOWN).rstrip("?？؟ ")


def is_answered_by(question: str, text: str) -> bool:
    """Return whether a text that asks nothing itself has most content words of a question, at least two."""
    words = _words(topic_of_question(question))
    shared = len(words & _words(text))
    return shared > 1 and shared >= ANSWERED * len(words) and not ends_as_question(text)


_words = lru_cache(maxsize=2_048)(content_terms)


def question_key(question: str) -> str:
    """Return the form in which two questions are equal: search form without closing punctuation."""
    return search_form(question).rstrip("?？؟!. ")


def rank_questions(questions: Sequence[Gap], now: datetime) -> list[Gap]:
    """Return the questions by weight, each once (the heaviest of equal ones).

    weight of the cause · log2(1 + times) · 2^(-age / 7 days): an explicit question outweighs one failed search, and a
    search that keeps failing outweighs a question asked once.
    """

    def weight(question: Gap) -> float:
        age_days = max(0.0, (now - question.last_at).total_seconds() / _DAY_SECONDS)
        return (
            _WEIGHT[Cause(question.cause)] * math.log2(1 + question.times) * math.pow(2.0, -age_days / HALF_LIFE_DAYS)
        )

    ranked = sorted(questions, key=lambda question: (-weight(question), question_key(question.question)))
    return list({question_key(question.question): question for question in reversed(ranked)}.values())[::-1]


def _without_comments(text: str) -> str:
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return " ".join((*kept, text[at:]))
