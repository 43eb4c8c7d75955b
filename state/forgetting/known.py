"""Known: finds a text to be forgotten in another text, by their folded forms alone.

One search serves two cases: an erasure knows the text itself; afterwards only salted digests remain. The mark of a
digest is that of its first word: a window of a text is hashed only where a word has the mark. A long text is known by
each of the runs of words that it is cut into, so that a part of it is found, too.
"""

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, combinations, pairwise
from typing import Self

from state.crystals.crystal import Crystal
from state.errors import UsageError
from state.forgetting.cutting import Cut, cut_all, joined
from state.forgetting.folded import Span, fold
from state.text.words import content_terms

RECOGNISED = (
    "any case, punctuation, white space and Unicode form; of a text of more than 32 words each of its parts. Not the"
    " same in other words, with a word more or less, joined, spaced out, encoded, or in another language."
)
MASK = "[…]"
LONGEST_RUN = 32  # words
Row = tuple[str, int, int]  # digest, length, mark, as in the table `forgotten`
# The length of a row is its number of words, or one of these.
WHOLE, ASKED = 0, -1
_MOST_ASKED = 7  # content words of a text whose questions are recognised


@dataclass(frozen=True, slots=True)
class Target:
    """A text to be forgotten, as its folded words; or one to be `kept`, within which nothing is found."""

    words: tuple[str, ...]
    kept: bool = False

    @classmethod
    def of(cls, text: str, *, kept: bool = False) -> Self:
        """Return the text as a target. Raise UsageError if it has no words."""
        words = fold(text).words
        if not words:
            raise UsageError("a text to be forgotten needs at least one word", "say which")
        return cls(words, kept)


@dataclass(frozen=True, slots=True)
class Known:
    """Texts to be recognised, by their digests; without a salt, by the words themselves.

    Nothing is found within the texts of `kept`. False if there is nothing to recognise.
    """

    salt: str = ""
    rows: frozenset[Row] = field(default=frozenset(), repr=False)
    kept: "Known | None" = None

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def anywhere(self) -> "Known":
        """Return all but the texts known only as a whole: what also applies in notes and archived sessions."""
        return replace(self, rows=frozenset(row for row in self.rows if row[1] != WHOLE))

    def found(self, text: str) -> tuple[Span, ...]:
        """Return the spans of these texts in the text, in characters, sorted and without overlaps.

        A text known as a whole is only found if it is the entire text.
        """
        return _found(self, text) if self.rows and text.strip() else ()

    def asks(self, question: str) -> bool:
        """Return whether all content words of a question, two or more, are words of one of these texts."""
        words = _content(fold(question).words) if self.rows else ()
        return len(words) > 1 and _digest(self.salt, words, ASKED) in _index(self)[0]

    def hits(self, text: str) -> list[tuple[Span, str]]:
        """Return the span and digest of each match."""
        (digests, lengths), read = _index(self), fold(text)
        whole = whole_row(self.salt, text)[0]
        found = [((0, len(text)), whole)] if whole in digests else []
        begins = {word: lengths.get(_mark(self.salt, word), ()) for word in set(read.words)}
        for at in [at for at, word in enumerate(read.words) if begins[word]]:
            for length in begins[read.words[at]]:
                run = read.words[at : at + length]
                if len(run) == length and (digest := _digest(self.salt, run, length)) in digests:
                    found.append(((read.spans[at][0], read.spans[at + length - 1][1]), digest))
        return found

    def without(self, text: str) -> str:
        """Return the text without the sentences (or lines) that contain a match; "" if no word remains."""
        return cut_all(text, self.found, Cut.SENTENCES)

    def masked(self, text: str) -> str:
        """Return the text with a mark in place of each match."""
        return cut_all(text, self.found, Cut.WORDS) or (text and MASK)

    def spared(self, crystal: Crystal) -> Crystal | None:
        """Return the crystal without matches, unchanged if it has none; None if no text is left."""
        beside = (crystal.context, crystal.speaker, crystal.session)
        if not self or not any(map(self.found, (crystal.text, *beside))):
            return crystal
        text = self.without(crystal.text)
        context, speaker, session = map(self.without, beside)
        return replace(crystal, text=text, context=context, speaker=speaker, session=session) if text else None


NOTHING = Known()


def rows_of(salt: str, target: Target) -> Iterator[Row]:
    """Yield all rows that are kept of a target."""
    for run in runs(target.words, LONGEST_RUN):
        yield _row(salt, run)
    if len(content := _content(target.words)) <= _MOST_ASKED:
        for some in chain.from_iterable(combinations(content, size) for size in range(2, len(content) + 1)):
            yield _digest(salt, some, ASKED), ASKED, 0


def whole_row(salt: str, text: str) -> Row:
    """Return the row by which only the whole text is known."""
    return _digest(salt, fold(text).words or (text.strip(),), WHOLE), WHOLE, 0


def runs(words: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """Cut words into runs of about equal length, each of at most this many."""
    count = -(-len(words) // most)
    ends = [len(words) * number // count for number in range(count + 1)]
    return [tuple(words[at:end]) for at, end in pairwise(ends)]


@lru_cache(maxsize=64)
def known_of(targets: tuple[Target, ...]) -> Known:
    """Return the targets as unsalted `Known`, for an erasure."""
    rows = frozenset(row for target in targets if not target.kept for row in rows_of("", target))
    return Known("", rows, Known("", frozenset(_row("", target.words) for target in targets if target.kept)))


def spans(text: str, targets: Iterable[Target]) -> tuple[Span, ...]:
    """Return the spans of the targets in the text, except within kept texts."""
    return known_of(tuple(targets)).found(text)


def without(text: str, targets: Iterable[Target], cut: Cut) -> str:
    """Cut the targets out of the text until none is found; "" if no word remains."""
    return cut_all(text, known_of(tuple(targets)).found, cut)


def _row(salt: str, run: Sequence[str]) -> Row:
    return _digest(salt, run, len(run)), len(run), _mark(salt, run[0])


def _digest(salt: str, words: Sequence[str], length: int) -> str:
    said = f"{length}\0{' '.join(words)}"
    if not salt:
        return said
    return hmac.digest(bytes.fromhex(salt), said.encode("utf-8", "surrogatepass"), hashlib.sha256)[:16].hex()


@lru_cache(maxsize=65_536)
def _mark(salt: str, word: str) -> int:
    """Return eight bits of a word's digest: too few to guess it by."""
    return hmac.digest(bytes.fromhex(salt), word.encode("utf-8", "surrogatepass"), hashlib.sha256)[0]


def _content(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(content_terms(" ".join(words))))


@lru_cache(maxsize=64)
def _index(known: Known) -> tuple[frozenset[str], Mapping[int, frozenset[int]]]:
    """Return the digests, and the lengths of what begins with a word of each mark."""
    lengths = dict[int, frozenset[int]]()
    for _, length, mark in known.rows:
        if length > 0:
            lengths[mark] = lengths.get(mark, frozenset()) | {length}
    return frozenset(digest for digest, _, _ in known.rows), lengths


@lru_cache(maxsize=64)
def _runs(known: Known) -> list[list[str]]:
    """Return the words of each run that is known without a salt."""
    return [digest.partition("\0")[2].split(" ") for digest, length, _ in known.rows if length > 0]


@lru_cache(maxsize=1_024)  # a text is checked where it is read, and again where it is written
def _found(known: Known, text: str) -> tuple[Span, ...]:
    if not known.salt and text.isascii():  # an erasure reads every text several times
        holds = text.lower().__contains__
        if not any(all(map(holds, run)) for run in _runs(known)):
            return ()
    found = [span for span, _ in known.hits(text)]
    stay = known.kept.hits(text) if found and known.kept else []
    return joined(one for one in found if not any(start <= one[0] and one[1] <= end for (start, end), _ in stay))
