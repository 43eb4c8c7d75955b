"""Wording: a text as words in order, each marked as denied, quoted or reported, for attribution.

Two texts with the same words may say opposite things: the words of a clause that denies, and those of a sentence
that only tells what a page says, or of a quotation in it, are marked as such.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache

from state.injection.decoding import folded
from state.text.languages.loader import table
from state.text.languages.tables import Reports, Words
from state.text.patterns import late_pattern
from state.text.remembered import remembered
from state.text.words import compatible, stem, stop_words, terms

# What it costs to leave a word unexplained.
CONTENT, NAME, NEGATION, STOP = 1.0, 1.75, 1.5, 0.15
_PAIR, _KANA_PAIR = 0.5, 0.2  # overlapping pairs of characters, of which a word has several

_LONG, _LETTERS = 18, 8
_DENYING_SIGNS = "未无無不非"
# Any negation is this word.
NOT = "not"
_SHORTEST = 4
_MANY_CAPITALS = 0.3

_SENTENCE = late_pattern(r"(?<=[.!?])\s+|(?<=[。！？])|\n+| · ")
_CLAUSE = late_pattern(
    r"(?<=[^\x00-\x7f])[,;:!?]|[,;:!?](?=[^\x00-\x7f])|[,;:!?)\]|][\s\"']|[.,;:!?]$|\.[\s\"']|"
    r"[(\[|「」『』“”«»\"。！？；：、，—–]| - "
)
_QUOTATION = late_pattern(r'"[^"]+"|[“„][^“”„]+[“”]|«[^«»]+»|「[^「」]+」|『[^『』]+』')
_SPEAKER = late_pattern(r"\W*\w+(?: \w+){0,2}: ?")  # Ada: "…"
_OVER = late_pattern(r"(\bprefer\w*\b.{1,60}?) over\b")
_NAME = late_pattern(r"(?<!\w)(?:\w*\d\w*|\w+(?:[.@/\\-]\w+)+|\w+[A-Z]\w*|\w+_\w+)")
_CAPITAL = late_pattern(r"(?<=[^\W_] )[^\W\d_][\w'’-]*|(?<=[,;] )[^\W\d_][\w'’-]*")


class Speech(IntEnum):
    """Who says a word: the text itself, somebody whom it quotes by name, or a page or a rumour."""

    OWN = 0
    NAMED = 1
    REPORTED = 2


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text. `sentence`, `clause` and `phrase` number what it stands in; a clause may have two phrases."""

    text: str
    weight: float
    sentence: int
    clause: int
    phrase: int
    denied: bool
    speech: Speech

    def only_reports(self, other: "Word") -> bool:
        """Whether this only tells what others say, and the other word says it as its own."""
        return self.speech is Speech.REPORTED and other.speech is Speech.OWN

    @property
    def meaning(self) -> bool:
        """Whether it is more than a stop word."""
        return self.weight > STOP


@remembered(300_000)
def wording(text: str) -> tuple[Word, ...]:
    """The words of a text, folded to one spelling; equal for look-alike letters, full-width signs and any case."""
    shown = compatible(text)
    named, found = _names(shown), list[Word]()
    clause = phrase = begins = 0
    for number, sentence in enumerate(_SENTENCE.split(shown)):
        plain, before = folded(sentence), len(found)
        reported = Speech.REPORTED if _reported().search(plain) else Speech.OWN
        scope = False
        for part, speech in _clauses(plain):
            clause += 1
            scope = scope and bool(_subordinating().match(part))
            for said in _conjunction().split(part):
                phrase += 1
                denies = not _negators().isdisjoint(terms(said)) or bool(_denies().search(said))
                denied = denies or scope
                place, speaks = (number, clause, phrase), max(reported, speech)
                found += [_word(term, named, place, speaks, denied=denied) for term in terms(said)]
            scope = denied
        if _only_denies(found[before:]):
            found[begins:before] = [replace(word, denied=True) for word in found[begins:before]]
        begins = before
    return tuple(found)


def unprefixed(word: Word) -> list[Word]:
    """What a word denies by the way it begins, in each way to read it: "verified" of "unverified"."""
    bare = [
        word.text.removeprefix(one).lstrip("-")
        for one in table(Reports).denying_prefixes
        if word.text.startswith(one)
    ]
    return [replace(word, text=one) for one in bare if len(one) >= _SHORTEST and one.isalpha()]


@cache
def _negators() -> frozenset[str]:
    return frozenset(map(folded, table(Reports).negators))


@cache
def _conjunction() -> re.Pattern[str]:
    return re.compile(rf"(?<=\s)(?:{'|'.join(table(Reports).conjunctions)})(?=\s)")


@cache
def _subordinating() -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{'|'.join(table(Reports).subordinating)})\b")


@cache
def _instead() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(table(Reports).instead)})\b")


@cache
def _denies() -> re.Pattern[str]:
    return re.compile(table(Reports).denies.pattern)


@cache
def _reported() -> re.Pattern[str]:
    known = table(Reports)
    doubted, sources, saying = map(_listed, (known.doubted, known.sources, known.saying))
    domain = r"\w+\.(?:example|com|org|net|io|dev|test)"
    reported = rf"\b(?:{sources}|{domain})(?:,? \w+){{0,4}}?,? (?:{saying})\b(?! \d)"  # a display reads 5
    return re.compile(rf"\b(?:{doubted})\b|{reported}|{known.reported.pattern}")


@cache
def _sources() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{_listed(table(Reports).sources)})\b")


def _listed(words: Words) -> str:
    return "|".join(folded(word).replace("*", r"\w*") for word in words)


@cache
def _light() -> frozenset[str]:
    return frozenset(map(folded, (*stop_words(), *table(Reports).light)))


def _only_denies(sentence: Sequence[Word]) -> bool:
    """Whether a sentence denies the one before it and says no more: "Don't."."""
    denies = any(word.denied for word in sentence)
    return denies and sum(word.weight for word in sentence if word.meaning and word.weight != NEGATION) <= CONTENT


def _clauses(sentence: str) -> Iterator[tuple[str, Speech]]:
    """The clauses of a sentence, and who says each."""
    plain, end = _OVER.sub(r"\1; not ", _instead().sub("; not ", sentence)), 0
    for match in _QUOTATION.finditer(plain):
        yield from ((part, Speech.OWN) for part in _CLAUSE.split(plain[end : match.start()]))
        before = plain[: match.start()]
        named = _SPEAKER.fullmatch(before) and not _sources().search(before)
        speech = Speech.NAMED if named else Speech.REPORTED
        yield from ((part, speech) for part in _CLAUSE.split(match.group()))
        end = match.end()
    yield from ((part, Speech.OWN) for part in _CLAUSE.split(plain[end:]))


def _word(term: str, named: frozenset[str], place: tuple[int, int, int], speech: Speech, *, denied: bool) -> Word:
    return Word(NOT if term in _negators() else stem(term), _weight(term, named), *place, denied, speech)


def _weight(term: str, named: frozenset[str]) -> float:
    if term in _negators():
        return NEGATION
    if term in _light():
        return STOP
    if term[0] in _DENYING_SIGNS and len(term) > 1:
        return CONTENT
    if term >= "\u0e00":
        return _KANA_PAIR if all("\u3040" <= char <= "\u309f" for char in term) else _PAIR
    if len(term) > _LONG:  # words run together, or encoded
        return len(term) / _LETTERS
    return NAME if term in named else CONTENT


def _names(text: str) -> frozenset[str]:
    """The words that name somebody or something: with digits, joined ones, and capital ones within a sentence.

    In a text in which many are capital, as in German or in a title, that tells nothing.
    """
    inner = _CAPITAL.findall(text)
    capital = [word for word in inner if word[0].isupper()]
    few = len(capital) <= max(2, _MANY_CAPITALS * len(inner))
    found = [match.group() for match in _NAME.finditer(text)] + (capital if few else [])
    return frozenset(term for name in found for term in terms(folded(name)))
