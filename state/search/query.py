"""Query: the words, speakers and periods that a search asks for."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from state.search.dates import Period, periods_in
from state.text.languages.loader import alternatives, inside, words
from state.text.words import content_terms, ends_as_question, search_form, signs, stop_words, terms
from state.trust import AGENT_NAMES

_NAME = re.compile(r"\b[^\W\d_a-z][^\W\d_]+\b")
# A text repeats a question if this share of its words is in the query; it may add an opening such as "Tell me: ".
_SHARED = 2 / 3
# A longer text (in characters) is not split into parts: it is a page rather than a question.
_LONGEST = 400
# A query may be a pasted page; its first words say what it is about.
_MAX_WORDS = 64


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query. `words` are its distinct content words, `topic` is the text to embed; neither contains `names`.

    A speaker's name says whose texts are meant. Half of those texts contain it as a word, and in an embedding it
    attracts texts that address the person; so both leave it out, unless the query says nothing else. `asks_reply`:
    the query addresses the agent or mentions it ("what did you recommend?").
    """

    words: tuple[str, ...]
    topic: str
    names: frozenset[str]
    periods: tuple[Period, ...]
    asks_reply: bool


def read_question(text: str, speakers: Collection[str], now: datetime) -> Question:
    """Parse a query asked at `now`, on the owner's clock. `speakers`: those of `names_in(text)` that are speakers."""
    text = _encodable(text)
    pattern = rf"\b(?:{'|'.join(map(re.escape, speakers))})\b(?:['’]s\b)?"
    without_names = " ".join(re.sub(pattern, " ", text).split()) if speakers else text
    topic = without_names if content_words(without_names) else text
    return Question(
        words=(*(content_words(topic) or dict.fromkeys(terms(topic))), *dict.fromkeys(signs(topic)))[:_MAX_WORDS],
        topic=topic,
        names=frozenset(speakers),
        periods=periods_in(text, now),
        asks_reply=_is_to_agent(text),
    )


def cuts_of(text: str) -> list[tuple[str, str]]:
    """Return each way to split a question in two, at a punctuation mark or a word such as "and".

    Each part has at least two content words: "which one, and why?" asks one thing.
    """
    if len(text) > _LONGEST:
        return []
    text = _encodable(text)
    cuts = [(text[: there.start()], text[there.end() :]) for there in _between().finditer(text)]
    return [cut for cut in cuts if all(len(content_words(part)) > 1 for part in cut)]


@cache
def _between() -> re.Pattern[str]:
    """Return the pattern of what separates two parts of a question."""
    spaced, unspaced = alternatives("and")
    return re.compile(rf"[.?!;,؟،](?=[^!-~])|[。？！；，、;\n]|(?<=\s)(?:[/&+]|{spaced})(?=\s)|{unspaced}")


def content_words(text: str) -> tuple[str, ...]:
    """Return the distinct words of a text, without stop words, in order."""
    return tuple(dict.fromkeys(term for term in terms(text) if term not in stop_words()))


def asks_again(query: str, text: str) -> bool:
    """Return whether a text only asks the query's question: it matches the words best, but answers nothing."""
    if not ends_as_question(text):
        return False
    words = content_terms(text)
    return bool(words) and len(words & content_terms(query)) >= _SHARED * len(words)


def names_in(text: str) -> tuple[str, ...]:
    """Return the capitalised words of a text, which may be names."""
    return tuple(dict.fromkeys(_NAME.findall(text)))


def _encodable(text: str) -> str:
    """Replace lone surrogates, which can be neither looked up nor embedded."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_to_agent(text: str) -> bool:
    """Return whether a text names an agent or addresses it ("you")."""
    is_named = not (AGENT_NAMES | words("you")).isdisjoint(terms(text))
    return is_named or (not text.isascii() and bool(inside("you").search(search_form(text))))
