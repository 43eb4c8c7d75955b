"""Answering: whether a text answers an open question. Strict: a wrongly settled question is worse than an open one.

One sentence must name what the question names and say something new of the sort that was asked for: a reason to
"why", a time to "when", a number to "how many", a name to "who". Doubts, plans and questions answer nothing.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter

from state.search.dates import tells_time
from state.text.common_words import commonplace
from state.text.languages.loader import languages, table, table_of
from state.text.languages.tables import Answers, Phrases
from state.text.sentences import ends_as_question, statements_of
from state.text.words import content_terms, numbers, stem, stop_words

_TOPIC = re.compile(r"^What is known about: (?P<topic>.*?)\?*$", re.DOTALL)
# What a question may ask for, in the order in which words are looked for that begin at one place.
_SORTS = ("why", "when", "where", "who", "how_many", "how", "what")
_CUES = {"why": "reasons", "how": "means", "where": "places"}
_NAME = re.compile(r"(?<!\w)[^\W\d_a-z][^\W_]+")
_VALUE = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|\b\w+[-_/.:@]\w[\w./:@-]*|\d")
_ALL_WORDS = 3
_SHARE = 0.75
_SAYS_MORE = 2


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a question asks for, in which language, of which words; "" when it has no word for that."""

    sort: str
    language: str
    text: str
    wanted: frozenset[str]


def answers(question: str, text: str) -> bool:
    """Whether some sentence of the text answers the question, which is one of `state.signals.curiosity`'s."""
    topic = _TOPIC.match(question.strip())
    asked = _asked(_doubt().sub(" ", topic["topic"] if topic else question))
    if not asked.wanted:
        return False
    if topic:
        return any(
            _covers(asked.wanted, one) and len(_news(asked.wanted, one)) >= _SAYS_MORE for one in _statements(text)
        )
    return any(_covers(asked.wanted, one) and _fits(asked, one) for one in _statements(text))


@lru_cache(maxsize=256)  # a question is held against many texts
def _asked(question: str) -> _Asked:
    """The sort of thing whose word stands first."""
    found = [
        (said.start(), _SORTS.index(sort), number)
        for number, language in enumerate(languages())
        for sort in _SORTS
        if (said := _phrases(sort, language).search(question))
    ]
    _, sort, number = min(found, default=(0, -1, 0))
    language = languages()[number]
    bare = _phrases(_SORTS[sort], language).sub(" ", question) if found else question
    for every in languages():
        bare = _phrases("particles", every).sub(" ", bare)
    wanted = content_terms(bare) - {stem(word) for word in table(Answers).asking}
    return _Asked(_SORTS[sort] if found else "", language, question, wanted)


@cache
def _phrases(row: str, language: str) -> re.Pattern[str]:
    said: Phrases = attrgetter(row)(table_of(language, Answers))
    return re.compile(said.pattern, re.IGNORECASE)


@cache
def _doubt() -> re.Pattern[str]:
    return re.compile(table(Answers).doubt.pattern, re.IGNORECASE)


def _statements(text: str) -> list[str]:
    return [one for one in statements_of(text) if one and not ends_as_question(one) and not _doubt().search(one)]


def _fits(asked: _Asked, sentence: str) -> bool:
    """Whether the sentence says something of the sort that the question asks for."""
    if not asked.sort and any(_phrases("polar", language).search(asked.text) for language in languages()):
        return asked.wanted <= content_terms(sentence)
    if not _news(asked.wanted, sentence):
        return False
    if not asked.sort:
        # "Hosting region: TBD" has no mark. What has one is in another language: left to who can read it.
        return "?" not in asked.text and _has_value(asked.wanted, sentence)
    if asked.sort == "what":
        return len(asked.wanted) >= _ALL_WORDS or _has_value(asked.wanted, sentence)
    return _has_sort(asked, sentence)


def _has_sort(asked: _Asked, sentence: str) -> bool:
    if asked.sort in _CUES:
        return _phrases(_CUES[asked.sort], asked.language).search(sentence) is not None
    if asked.sort == "when":
        return tells_time(sentence)
    if asked.sort == "who":
        return _has_name(asked.wanted, sentence)
    return bool(set(numbers(sentence)) - set(numbers(asked.text)))


def _covers(wanted: frozenset[str], sentence: str) -> bool:
    """All the words of a short question, three quarters of a longer one's."""
    there = wanted & content_terms(sentence)
    return there == wanted if len(wanted) <= _ALL_WORDS else len(there) >= _SHARE * len(wanted)


def _news(wanted: frozenset[str], sentence: str) -> frozenset[str]:
    return content_terms(sentence) - wanted


def _has_name(wanted: frozenset[str], sentence: str) -> bool:
    names = (name.lower() for name in _NAME.findall(sentence))
    return any(name not in stop_words() | commonplace() and not content_terms(name) & wanted for name in names)


def _has_value(wanted: frozenset[str], sentence: str) -> bool:
    return _has_name(wanted, sentence) or any(
        not content_terms(value) <= wanted for value in _VALUE.findall(sentence) if content_terms(value)
    )
