"""Statement: finds in a text the part that says the same as a sentence, and what the text says beside it.

Precision comes first: a part says the same if it has all content words of the sentence, few of its own, no other
names or numbers nor these in another order, and no negation or doubt that the sentence has not. Another value in the
same words ("tea" for "coffee") is another statement; what says less, or names the same, is near.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import Self

from state.forgetting.cutting import Cut, cut_out, sentences
from state.forgetting.folded import Span, fold
from state.text.languages.loader import phrases, words
from state.text.patterns import late_pattern
from state.text.words import content_terms, ends_as_question, numbers

# A part has most words of a sentence with this share of them.
_MOST = 0.75
_COMMAS, _ENDS = ",，、", " \t\r\n.!。！"
_BREAK = late_pattern(rf"[;；]\s*|\s+[–—]\s+|[{_COMMAS}]\s*")


class Likeness(Enum):
    """How surely a part says what a sentence says."""

    SAME = "same"
    NEAR = "near"


@dataclass(frozen=True)
class Statement:
    """A sentence with the words that count of it."""

    text: str

    @classmethod
    def each_of(cls, text: str) -> tuple[Self, ...]:
        """Return the sentences of a text, each with three content words or more; a shorter text is one as it is."""
        found = [cls(text[start:end]) for start, end in sentences(text)]
        return tuple(one for one in found if len(one.words) > 2 or len(found) == 1) or (cls(text),)

    @cached_property
    def words(self) -> frozenset[str]:
        """Return its content words."""
        return content_terms(self.text)

    @cached_property
    def names(self) -> tuple[frozenset[str], ...]:
        """Return the words of each of its names and numbers, which begin with a capital or a digit, in order."""
        found = (content_terms(run) & self.words for run in self.text.split() if _is_name(run))
        return tuple(filter(None, found))

    @cached_property
    def is_specific(self) -> bool:
        """Return whether it has a name or number that is not its first word, which may have a capital anyway."""
        return any(map(_is_name, self.text.split()[1:]))

    @cached_property
    def marks(self) -> frozenset[str]:
        """Return the words of all its names and numbers."""
        return frozenset(chain.from_iterable(self.names))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Return its numbers."""
        return frozenset(numbers(self.text))

    @cached_property
    def negations(self) -> frozenset[str]:
        """Return its words for no and not."""
        return self.words & words("negators")

    @cached_property
    def is_doubtful(self) -> bool:
        """Return whether it asks, or speaks of what was or would be."""
        return ends_as_question(self.text) or phrases("former", "unreal").search(self.text) is not None

    def likeness(self, part: str, beside: str, *, is_source: bool = False) -> Likeness | None:
        """Return how surely a part of a text says the same; None if it says something else.

        A name may be `beside` the part, where a pronoun stands for it. Of a text that the sentence was made of
        (`is_source`), a part with most of its words in it is enough.
        """
        other = _statement(part)
        if not (self.words and other.words) or self.negations != other.negations:
            return None
        if fold(part).words == fold(self.text).words:
            return Likeness.SAME
        own, here = other.words - self.words, self.words & other.words
        if not own & other.marks:  # nothing else is named: it is about the same
            here |= self.marks & content_terms(beside)
        if self._is_said_by(other, here, own, is_source=is_source):
            return Likeness.SAME
        named = sum(not name.isdisjoint(other.words) for name in self.names)
        says_less = not own and self.marks <= here and 2 * len(here) >= len(self.words)
        return Likeness.NEAR if says_less or (named > 1 and 2 * named >= len(self.names)) else None

    def may_be_in(self, words_of_text: frozenset[str]) -> bool:
        """Return whether a text with these content words may say the same, or what is near."""
        here = self.words & words_of_text
        return 2 * len(here) >= len(self.words) or sum(not name.isdisjoint(here) for name in self.names) > 1

    def _is_said_by(self, other: "Statement", here: frozenset[str], own: frozenset[str], *, is_source: bool) -> bool:
        """Return whether another sentence, with these words of this one and these of its own, says it."""
        if other.is_doubtful != self.is_doubtful:
            return False
        if is_source:
            is_retold = len(other.words - own) >= _MOST * len(other.words) and 2 * len(here) >= len(self.words)
            return is_retold and other.numbers <= self.numbers
        if own & other.marks or [one for one in self.names if one <= other.words] != [
            one & self.marks for one in other.names if one & self.marks
        ]:
            return False
        most = max(1, len(self.words) // 3) if self.is_specific else 0
        return here == self.words and len(own) <= most


def _is_name(run: str) -> bool:
    first = re.sub(r"^\W+", "", run)[:1]
    return first.isupper() or first.isdecimal()


_statement = lru_cache(maxsize=1_024)(Statement)


@dataclass(frozen=True, slots=True)
class Found:
    """Where a text says the same, and how surely."""

    spans: tuple[Span, ...]
    likeness: Likeness


def found_in(text: str, wanted: Iterable[Statement], *, is_source: bool = False) -> Found | None:
    """Return where a text says one of these sentences; only if it surely says none, where it may."""
    found: dict[Likeness, set[Span]] = {likeness: set() for likeness in Likeness}
    words_of_text = content_terms(text)
    for one, sentence in product((one for one in wanted if one.may_be_in(words_of_text)), sentences(text)):
        parts = {
            span: one.likeness(text[slice(*span)], text, is_source=is_source) for span in _clauses(text, sentence)
        }
        if Likeness.SAME not in parts.values():  # what no clause says alone, the sentence may
            parts = {sentence: one.likeness(text[slice(*sentence)], text, is_source=is_source)}
        for span, likeness in parts.items():
            if likeness is not None:
                found[likeness].add(span)
    return next((Found(tuple(sorted(spans)), likeness) for likeness, spans in found.items() if spans), None)


def without(text: str, gone: Iterable[Span]) -> str:
    """Return the text without these sentences and clauses, and without what joined them to others."""
    spans = set(gone)
    for start, end in reversed(sentences(text)):
        clauses = _clauses(text, (start, end))
        stay = [one for one in clauses if one not in spans]
        if (start, end) in spans or not stay:
            text = cut_out(text, [(start, end)], Cut.SENTENCES)
        elif len(stay) < len(clauses):
            said = "; ".join(text[slice(*one)] for one in stay)
            text = text[:start] + said[:1].upper() + said[1:] + text[clauses[-1][1] :]
    return text.strip()


def _clauses(text: str, sentence: Span) -> list[Span]:
    """Return the clauses of a sentence, without what joins them and the final punctuation."""
    start, end = sentence
    end = start + len(text[start:end].rstrip(_ENDS))
    found, at = list[Span](), start
    for match in _BREAK.finditer(text, start, end):
        joins = phrases("and", "but").match(text, match.end(), end)
        if joins is not None or text[match.start()] not in _COMMAS:
            found.append((at, match.start()))
            at = match.end() if joins is None else joins.end()
            at += len(text[at:end]) - len(text[at:end].lstrip())
    return [*found, (at, end)]
