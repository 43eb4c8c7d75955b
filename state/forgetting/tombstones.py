"""Tombstones: forgotten texts as salted hashes of word n-grams, so that the list reveals nothing.

A text is looked through window by window, so it is found in any text that holds it, or what was cut off from it, by
the rules of `state.forgetting.matching`; in other spellings and with one word more or less, by those of
`state.forgetting.respelt`; and in base64.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from state.crystals.crystal import Crystal
from state.forgetting.digests import (
    FIRST,
    LAST,
    PART,
    digest_of_part,
    digest_of_run,
    digest_of_text,
    marked_places,
    sums_of,
)
from state.forgetting.matching import RUN_WORDS, Cut, cut_all, cut_off, joined, readings
from state.forgetting.placed_words import Span, Word, placed_words
from state.forgetting.respelt import NONE, Respelt
from state.text.escapes import unescaped
from state.text.spelling import encoded


@dataclass(frozen=True, slots=True)
class Runs:
    """The forgotten runs of so many words: their marks and their digests.

    Of the parts of long texts, which stand for them only where a text may be cut, these are also the digests of the
    first and the last ones as such.
    """

    length: int
    marks: frozenset[int]
    digests: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tombstones:
    """All forgotten texts of one workspace: `runs` by length, the shortest first; `whole` are digests of whole texts.

    `parts` are runs of eight words of long texts, `respelt` is for other spellings. False when nothing is forgotten.
    """

    salt: str = ""
    whole: frozenset[str] = frozenset()
    runs: tuple[Runs, ...] = ()
    parts: Runs | None = None
    respelt: Respelt = NONE

    def __bool__(self) -> bool:
        return bool(self.whole or self.runs)

    @property
    def anywhere(self) -> "Tombstones":
        """The tombstones that hold in every text of notes and archived sessions too: all but whole texts."""
        return replace(self, whole=frozenset()) if self.whole else self

    def found(self, text: str) -> tuple[Span, ...]:
        """Where forgotten texts stand in the text: (start, end) in characters, in order, without overlaps.

        A text that is forgotten as a whole is found in itself alone, all of it.
        """
        if not self or not text.strip():
            return ()
        if self.whole and digest_of_text(self.salt, text) in self.whole:
            return ((0, len(text)),)
        return _found(self, text)

    def without(self, text: str) -> str:
        """The text without the sentences (or lines) that hold something forgotten; "" when no word remains."""
        return cut_all(text, self.found, Cut.SENTENCES)

    def masked(self, text: str) -> str:
        """The text with a mark in the place of forgotten words."""
        return cut_all(text, self.found, Cut.WORDS) or (text and MASK)

    def spared(self, crystal: Crystal) -> Crystal | None:
        """The crystal without what is forgotten, unchanged when nothing of it is; None when no text is left."""
        beside = (crystal.context, crystal.speaker, crystal.session)
        if not self or not any(map(self.found, (crystal.text, *beside))):
            return crystal
        text = self.without(crystal.text)
        context, speaker, session = map(self.without, beside)
        return replace(crystal, text=text, context=context, speaker=speaker, session=session) if text else None


MASK = "[…]"
NOTHING = Tombstones()


@lru_cache(maxsize=1_024)  # a text is looked at where it is read, and again where it is written
def _found(buried: Tombstones, text: str) -> tuple[Span, ...]:
    found: list[Span] = []
    for reading in readings(text):
        words = placed_words(reading)
        found += _places(buried, reading, words)
        if reading == unescaped(text):
            found += [span for span, _ in buried.respelt.found(buried.salt, reading, words)]
    found += [(start, end) for start, end, said in encoded(text) if buried.anywhere.found(said)]
    return joined(found)


def _places(buried: Tombstones, text: str, words: Sequence[Word]) -> list[Span]:
    bare = tuple(word for word, _, _ in words)
    sums = sums_of(buried.salt, bare)
    digest_of = cache(lambda run: digest_of_run(buried.salt, run))  # one run may stand there many times
    found: list[Span] = []
    for runs in buried.runs:
        found += [
            (words[at][1], words[at + runs.length - 1][2])
            for at in marked_places(sums, runs.length, runs.marks)
            if digest_of(bare[at : at + runs.length]) in runs.digests
        ]
    if buried.parts:
        likely = marked_places(sums, buried.parts.length, buried.parts.marks)
        found += _cut_off(buried.salt, buried.parts, text, words, likely)
    return found


def _cut_off(salt: str, parts: Runs, text: str, words: Sequence[Word], likely: Sequence[int]) -> list[Span]:
    digest_of = cache(lambda run, place: digest_of_part(salt, run, place))

    def known(at: int, place: str) -> bool:
        return digest_of(tuple(word for word, _, _ in words[at : at + RUN_WORDS]), place) in parts.digests

    places = [at for at in likely if known(at, PART)]
    return cut_off(text, words, places, lambda at: (known(at, FIRST), known(at, LAST)))
