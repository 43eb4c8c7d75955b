"""Salience: a first guess of a turn's importance and kind, from its words and its speaker.

A first guess, made without a model. What the owner says outweighs what a tool prints; a wish, a decision, a date or
"remember" outweighs talk. Guesses are cheap to be wrong: nothing is dropped, everything is found by search.
"""

import re
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from state.crystals.crystal import Kind
from state.text.languages.detection import language_of
from state.text.languages.loader import table, table_of
from state.text.languages.lookup import Lookup
from state.text.languages.tables import Contrasts, Phrases, Signs, Times, either
from state.text.words import terms
from state.trust import Trust

_LEAST_OF_A_FACT = 2  # words
_HEAD = 2_000  # what a long turn is about stands at its beginning

_DAY = r"(?:\d{1,2}(?:st|nd|rd|th|er|º|\.|-?го)?(?: de| di)? )?"


@dataclass(frozen=True, slots=True)
class Salience:
    """A kind, and an importance in [0, 1]."""

    kind: Kind
    importance: float


# In this order: the first that is found names the kind, the highest sets the importance.
_SIGNS = {
    "preference": (Kind.PREFERENCE, 0.75),
    "deadline": (Kind.GOAL, 0.8),
    "decision": (Kind.FACT, 0.75),
    "relationship": (Kind.RELATIONSHIP, 0.65),
    "insight": (Kind.INSIGHT, 0.7),
    "goal": (Kind.GOAL, 0.65),
    "pattern": (Kind.TASK_PATTERN, 0.6),
    "episode": (Kind.EPISODE, 0.5),
}
# What an agent did is a task, which may come back; what its owner did is an episode.
_DEED = (Kind.TASK_PATTERN, 0.5)
_PLAIN = {Trust.OWNER: 0.45, Trust.AGENT: 0.35, Trust.TOOL: 0.2, Trust.WEB: 0.2}
# What an agent says about itself and the work weighs less than the owner's word; output of tools hardly weighs.
_WEIGHT = {Trust.OWNER: 1.0, Trust.AGENT: 0.75}


def salience(text: str, trust: Trust) -> Salience:
    """The kind and importance of what someone of this trust said.

    Importance: owner .3 to .9, agent .25 to .65, tool and web .2. Kinds of tools' and strangers' texts are GENERAL:
    a page that says "I prefer" tells nothing about the owner.
    """
    if trust not in _WEIGHT:
        return Salience(Kind.GENERAL, _PLAIN[trust])
    head = text[:_HEAD].replace("’", "'")
    if _small_talk().fullmatch(head.strip()):
        return Salience(Kind.GENERAL, 0.3 if trust is Trust.OWNER else 0.25)
    found = [sign for row, sign in _SIGNS.items() if _says(row, head)]
    if trust is Trust.AGENT and (not found or found[0][0] is Kind.EPISODE) and _begins_with_a_deed(head):
        found = [_DEED, *found]
    kind = found[0][0] if found else Kind.GENERAL
    weight = max([weight for _, weight in found], default=0.0) * _WEIGHT[trust]
    if trust is Trust.OWNER and _says("remember", head):
        return Salience(kind if found else Kind.FACT, 0.9)
    if not found and _states(head):
        kind = Kind.FACT
    if is_question(head):
        # A question says what was wanted, seldom what is so: only what it states beside that counts.
        return Salience(kind, round(max(0.4 * _WEIGHT[trust], weight - 0.2), 3))
    return Salience(kind, round(max(_PLAIN[trust], weight), 3))


def is_question(text: str) -> bool:
    """Whether the text ends with a question."""
    return text.rstrip(" \n\t\"')*_").endswith(("?", "？", "؟"))


def _states(head: str) -> bool:
    """Whether a text says of something what it is, has, uses or needs."""
    if is_question(head) or len(terms(head)) < _LEAST_OF_A_FACT:
        return False
    known = _verbs(language_of(head))
    return known.is_in(head, frozenset(terms(head)))


def _begins_with_a_deed(head: str) -> bool:
    first = head.lstrip(" -*•")
    return any(pattern.match(first) for pattern in _patterns("deed")[: 1 if head.isascii() else 2])


@cache
def _verbs(language: str) -> Lookup:
    rows = table_of(language, Contrasts)
    return Lookup((*rows.copulas, *rows.choosing, *rows.relations, *rows.needs, *rows.living, *rows.properties))


def _says(row: str, head: str) -> bool:
    return any(pattern.search(head) for pattern in _patterns(row)[: 1 if head.isascii() else 2])


@cache
def _patterns(row: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The phrases of a row in all languages: those with spaces between words, and those without."""
    known = table(Signs)
    phrases: Phrases = attrgetter(row)(known)
    spaced, unspaced = either(phrases.spaced), "|".join(phrases.unspaced)
    if row == "deadline":
        months = either(table(Times).month_names)
        date = rf"{_DAY}(?:{months})(?: \d{{1,2}})?|{either(known.dates.spaced)}"
        spaced += rf"|(?:{either(known.by.spaced)}) ?(?:{date})"
        unspaced += f"|(?:{'|'.join(known.dates.unspaced)})(?:{'|'.join(known.by.unspaced)})"
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)", re.IGNORECASE), re.compile(unspaced)


@cache
def _small_talk() -> re.Pattern[str]:
    known = table(Signs).small_talk
    said = "|".join((*known.spaced, *known.unspaced))
    return re.compile(rf"(?:(?:{said})[\s,.!。！，、👍🙏]*){{1,4}}", re.IGNORECASE)
