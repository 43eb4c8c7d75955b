"""Claim: what an operation says, its grounds, and the words that are new in it, gone, or nobody's, for the guards."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property

from graphs.evidence.numbers import Reckoned, invented, number_word
from graphs.ports import Cosine, unknown
from state.document.operations import Action
from state.text import antonyms
from state.text.languages.detection import language_of
from state.text.languages.loader import table
from state.text.languages.tables import Changes, Contrasts
from state.text.statement import Statement, Word, read_statement
from state.text.words import normalise, numbers, search_form, stem, stop_words, terms

# So near in meaning two texts speak of one thing; by words, when they share two, or one that few lines have.
NEAR = 0.4
RARE = 3
_PREFIX, _ENDING = 4, 3
_CAPITAL_NOUNS = frozenset({"de"})
_FULL_HOUR = re.compile(r"t\d\d00")


@dataclass(frozen=True)
class Claim:
    """What an operation says, and on which grounds.

    `old` are the lines that it changes, `inputs` and `beside` the inputs and further lines that it cites, each with
    the time when it was said; `known` is all else that stands or was said.
    """

    action: Action
    text: str
    old: tuple[tuple[str, datetime], ...] = ()
    inputs: tuple[tuple[str, datetime], ...] = ()
    beside: tuple[tuple[str, datetime], ...] = ()
    known: tuple[str, ...] = ()
    cosine: Cosine = field(default=unknown, compare=False)

    @cached_property
    def language(self) -> str:
        """That of all texts together."""
        return language_of(" ".join([self.text, *(text for text, _ in (*self.old, *self.inputs, *self.beside))]))

    def read(self, text: str) -> Statement:
        """A text as a statement."""
        return read_statement(text, self.language)

    def words(self, *texts: str) -> list[Word]:
        """The words of texts that say something."""
        found = [_plain(word) for text in texts for word in self.read(text).words if _says_something(word)]
        return [word for word in found if word.label or word.text not in _common()] or found

    @cached_property
    def olds(self) -> tuple[str, ...]:
        """The lines that it changes."""
        return tuple(text for text, _ in self.old)

    @cached_property
    def said(self) -> tuple[str, ...]:
        """The inputs that it cites."""
        return tuple(text for text, _ in self.inputs)

    @cached_property
    def cited(self) -> tuple[str, ...]:
        """The inputs and further lines that it cites."""
        return (*self.said, *(text for text, _ in self.beside))

    @cached_property
    def support(self) -> "Words":
        """The words of what it cites."""
        return Words(self.words(*self.cited))

    @cached_property
    def come(self) -> list[Word]:
        """The words that are in none of the lines that it changes."""
        before = Words(self.words(*self.olds))
        return [word for word in self.words(no_longer().sub(" ", self.text)) if word not in before]

    @cached_property
    def own(self) -> list[Word]:
        """The words that are in none of its sources and do not follow from them."""
        missing = [word for word in self.come if word not in self.support]
        if not any(word.number for word in missing):
            return missing
        sources = (*self.old, *self.inputs, *self.beside)
        reckoned, counts = Reckoned.of(sources), self._counts()
        follow = {"1", *reckoned.values_of(self.text), *(f"m{at.month}" for _, at in sources)} | counts
        written = {part for number in numbers(self.text) for part in (number, *_parts(number))}
        strange = {part for one in invented(self.text, sources) if one not in counts for part in (one, *_parts(one))}
        spelt = {f"m{number_word(term)}" for text, _ in sources for term in terms(text)}

        def follows(value: str) -> bool:
            parts = _parts(value) or [value]
            if not written.isdisjoint(parts):
                return strange.isdisjoint(parts)
            clock = f"{value[1:3]}:{value[3:5]}" if value[0] == "t" else value
            return value in follow or value in spelt or reckoned.follows(clock)

        return [word for word in missing if not (word.number and follows(word.text))]

    @cached_property
    def gone(self) -> list[Word]:
        """The words of the lines that it changes which are no longer there."""
        after = Words(self.words(self.text))
        return [word for word in self.words(*self.olds) if word not in after]

    @property
    def names_tell(self) -> bool:
        """Whether a capital letter names somebody or something: not where every noun has one."""
        return self.language not in _CAPITAL_NOUNS

    @cached_property
    def is_about(self) -> bool:
        """Whether an input speaks of what the operation is about: by its words, or near in meaning."""
        subject = [*self.olds, self.text]
        words = {word.text for word in self.words(*(self.olds or (self.text,)))}
        for said in self.said:
            shared = words & {word.text for word in self.words(said)}
            rare = any(sum(one in texts(self, line) for line in self.known) <= RARE for one in shared)
            cosines = (self.cosine(said, text) for text in subject)
            if rare or len(shared) > 1 or max(filter(None, cosines), default=0.0) >= NEAR:
                return True
        return False

    def _counts(self) -> frozenset[str]:
        """As many as are named: of the lines that are merged, or one more or less when something is named."""
        lines = {str(number) for number in range(2, len(self.old) + len(self.inputs) + 1)}
        named = any((word.named or word.may_name) and word in self.support for word in self.come)
        counted = {int(word.text) for word in self.words(*self.olds) if word.text.isdecimal() and len(word.text) < 4}
        one_more = {str(count + by) for count in counted for by in (1, -1)} if named else set()
        return frozenset((lines if self.action is Action.MERGE else set()) | one_more)


class Words:
    """Words to look for in any of their forms."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._texts = frozenset(word.text for word in words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, Word) and is_among(word.text, self._texts)


def is_among(word: str, others: Collection[str]) -> bool:
    """Whether a word is among others, in another form or spelling perhaps."""
    if word in others:
        return True
    if len(word) < _PREFIX:
        return f"{word}s" in others or word.removesuffix("s") in others
    return word.isalpha() and any(_same_word(word, other) for other in others)


def _says_something(word: Word) -> bool:
    denies = word.denies or word.text in antonyms.words("negators")
    return not (word.link or denies or word.small or word.text.startswith("§"))


@cache
def _common() -> frozenset[str]:
    """The stop words but those of which another one says the contrary, such as "off"."""
    telling = frozenset(
        word for group in (*table(Contrasts).opposites, *table(Contrasts).alternatives) for word in group
    )
    return frozenset(map(stem, stop_words() - telling))


def texts(claim: Claim, sentence: str) -> frozenset[str]:
    """The words of a text that say something."""
    return frozenset(word.text for word in claim.words(sentence))


def is_denied(claim: Claim, text: str) -> bool:
    """Whether a text denies what it says: two denials do not."""
    return denials(claim, text) % 2 == 1


def denials(claim: Claim, text: str) -> int:
    """How many words of a text deny; short ones do not tell their language."""
    return claim.read(text).denials or sum(term in antonyms.words("negators") for term in terms(text))


def plainly(text: str) -> str:
    """A text as it is the same whatever its case and its last mark."""
    return normalise(text).rstrip(".!。！ ")


def _plain(word: Word) -> Word:
    """A full hour as a number: "at ten" is 10:00."""
    return replace(word, text=str(int(word.text[1:3]))) if _FULL_HOUR.fullmatch(word.text) else word


def _parts(value: str) -> list[str]:
    """The numbers in a value as it is written or as a statement has it: "t0845" is of 8 and 45."""
    digits = re.findall(r"\d\d" if value[0] == "t" else r"\d+", value)
    return [part.lstrip("0") or "0" for part in digits]


def shown(words: Sequence[Word]) -> str:
    """Words as a person is told of them."""
    return ", ".join(sorted({word.text for word in words}))[:80]


def clauses(text: str) -> list[str]:
    """The clauses of a text."""
    return [clause for clause in _clause().split(text) if clause]


@cache
def _clause() -> re.Pattern[str]:
    return re.compile(
        rf"[;!?；。，]\s*|(?<=\w\w\w)\.\s+|[,:]\s+|(?<!\s)\s+(?:{'|'.join(table(Changes).conjunctions)})\s+"
    )


@cache
def no_longer() -> re.Pattern[str]:
    """What says that something is no longer so."""
    return re.compile(table(Changes).no_longer.pattern, re.IGNORECASE)


@cache
def spoke() -> frozenset[str]:
    """Words of whoever only asks or speaks of something."""
    return frozenset(map(stem, table(Changes).spoke))


def _same_word(one: str, other: str) -> bool:
    """Whether two words are forms of one another, or spellings in different languages."""
    if len(other) < _PREFIX or not other.isalpha():
        return False
    if one.startswith(other) or other.startswith(one):
        return True
    longer = max(len(one), len(other))
    if one[: max(_PREFIX, longer - _ENDING)] == other[: max(_PREFIX, longer - _ENDING)]:
        return True
    if one.isascii() and other.isascii():
        return False
    short, long = sorted(map(_consonants, (one, other)), key=len)
    return len(short) >= _PREFIX and long.startswith(short)


@cache
def _consonants(word: str) -> str:
    """What is left of a word in most languages that use Latin letters: München, Muenchen, Munich."""
    plain = unicodedata.normalize("NFD", word.replace("ß", "ss")).replace("k", "c")
    bare = "".join(char for char in plain if char.isalpha() and char not in "aeiouyæøœ")
    return re.sub(r"(.)\1+", r"\1", bare)


def limits(statement: Statement) -> frozenset[str]:
    """What limits a statement: of whom, how many, how sure."""
    return (statement.quantifiers | statement.possible) - antonyms.words("negators")


def bearing_of(claim: Claim) -> Statement | None:
    """The sentence that says most of what is new."""
    new = claim.come if claim.olds else claim.words(claim.text)
    sentences = [sentence for text in claim.said for sentence in re.split(r"(?<=[.!?。！？])\s*", text) if sentence]
    ranked = [(sum(word in Words(claim.words(sentence)) for word in new), sentence) for sentence in sentences]
    most = max(ranked, default=(0, ""), key=lambda pair: pair[0])
    return claim.read(most[1]) if most[0] else None


def marks(claim: Claim, sentence: str) -> Iterator[tuple[Word, int]]:
    """The words of a sentence that only one of the lines has, each with the number of that line."""
    lines = [{word.text for word in claim.words(line)} for line in claim.olds]
    known = {word.text for word in claim.words(*claim.cited)}
    for word in claim.words(sentence):
        having = [number for number, mine in enumerate(lines) if word.text in mine]
        if len(having) == 1 and word.text not in known:
            yield word, having[0]


def states(claim: Claim, said: str) -> bool:
    """Whether a text says something, and does not only ask or speak of it."""
    statement = claim.read(said)
    return not statement.asks and (bool(denials(claim, said)) or spoke().isdisjoint(map(stem, terms(said))))


def tells_change(claim: Claim, said: str) -> bool:
    """Whether a text says that something is no longer as it was."""
    return bool(claim.read(said).changes) or bool(no_longer().search(search_form(said)))
