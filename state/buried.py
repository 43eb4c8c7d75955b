"""What is not to be learnt again, as a value: salted digests of runs of words, which say nothing about the words.

A text is looked through window by window, so it is found in any text that holds it, or what was cut off from it, by
the rules of `state.forgetting`. Each run has a mark of 16 bits beside its digest, made of its words by a sum that
rolls along the text: only where the mark fits, a digest is made.
"""

import hashlib
import hmac
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from state.crystal import Crystal
from state.forgetting import RUN_WORDS, Cut, Span, Word, cut_all, cut_off, joined, readings, worded
from state.scratch import Note

_BITS = 64
_MASK = (1 << _BITS) - 1
_MARK_SHIFT = _BITS - 16
_TIMES = 31


@dataclass(frozen=True, slots=True)
class Runs:
    """The buried runs of so many words: their marks and their digests.

    Of the parts of long texts, which stand for them only where a text may be cut, these are also the digests of the
    first and the last ones as such.
    """

    length: int
    marks: frozenset[int]
    digests: frozenset[str]


@dataclass(frozen=True, slots=True)
class Buried:
    """All that is buried in one workspace: `runs` by length, the shortest first; `whole` are digests of whole texts.

    `parts` are runs of eight words of long texts. False when nothing is buried.
    """

    salt: str = ""
    whole: frozenset[str] = frozenset()
    runs: tuple[Runs, ...] = ()
    parts: Runs | None = None

    def __bool__(self) -> bool:
        return bool(self.whole or self.runs)

    @property
    def anywhere(self) -> "Buried":
        """What the owner has forgotten: not to be kept in any text, a note's or a session's archive included."""
        return replace(self, whole=frozenset()) if self.whole else self

    def found(self, text: str) -> tuple[Span, ...]:
        """Where something buried stands in the text: (start, end) in characters, in order, none overlapping another.

        A text that is buried whole is found in itself alone, all of it.
        """
        if not self or not text.strip():
            return ()
        if self.whole and digest_of_text(self.salt, text) in self.whole:
            return ((0, len(text)),)
        return _found(self, text)

    def without(self, text: str) -> str:
        """The text without the sentences (or lines) that hold something buried; "" when no word remains."""
        return cut_all(text, self.found, Cut.SENTENCES)

    def masked(self, text: str) -> str:
        """The text with a mark in the place of the words that are buried."""
        return cut_all(text, self.found, Cut.WORDS) or (text and MASK)

    def spared(self, crystal: Crystal) -> Crystal | None:
        """What may be learnt of a crystal: the very same where nothing of it is buried; None: nothing."""
        beside = (crystal.context, crystal.speaker, crystal.session)
        if not self or not any(map(self.found, (crystal.text, *beside))):
            return crystal
        text = self.without(crystal.text)
        context, speaker, session = map(self.without, beside)
        return replace(crystal, text=text, context=context, speaker=speaker, session=session) if text else None

    def of_notes(self, notes: Iterable[Note]) -> tuple[Note, ...]:
        """What may be shown of these notes."""
        if not self:
            return tuple(notes)
        left = (replace(note, text=self.without(note.text)) for note in notes)
        return tuple(note for note in left if note.text)


MASK = "[…]"
# No word begins with such a sign.
PART, FIRST, LAST = ".part", ".first", ".last"
NOTHING = Buried()


def digest_of_text(salt: str, text: str) -> str:
    """The digest of a whole text; white space at its ends and Unicode forms are folded, as a crystal's id does."""
    folded = unicodedata.normalize("NFC", text.strip()).encode("utf-8", "surrogatepass")
    return hmac.new(bytes.fromhex(salt), folded, hashlib.sha256).hexdigest()


def digest_of_run(salt: str, words: Sequence[str]) -> str:
    """The digest of a run of words, 32 hexadecimal digits."""
    message = f"{len(words)}\0{' '.join(words)}".encode("utf-8", "surrogatepass")
    return hmac.digest(bytes.fromhex(salt), message, "sha256")[:16].hex()


def digest_of_part(salt: str, words: Sequence[str], place: str = PART) -> str:
    """The digest of a part of a long text; that it is the `FIRST` or the `LAST` one has a digest of its own."""
    return digest_of_run(salt, (place, *words))


def mark_of_run(salt: str, words: Sequence[str]) -> int:
    """The mark of a run of words. It is made of all of them: 16 bits about a guess of the whole, of none alone."""
    total = 0
    for word in words:
        total = (total * _TIMES + _value(salt, word)) & _MASK
    return total >> _MARK_SHIFT


@lru_cache(maxsize=1_024)  # a text is looked at where it is read, and again where it is written
def _found(buried: Buried, text: str) -> tuple[Span, ...]:
    return joined(place for reading in readings(text) for place in _places(buried, reading))


def _places(buried: Buried, text: str) -> list[Span]:
    words = worded(text)
    sums, length = [_value(buried.salt, word) for word, _, _ in words], 1
    values = sums
    found: list[Span] = []
    every = [*buried.runs, *([buried.parts] if buried.parts else [])]
    for runs in sorted(every, key=lambda one: one.length):
        while length < runs.length:
            sums = [(total * _TIMES + value) & _MASK for total, value in zip(sums, values[length:], strict=False)]
            length += 1
        if runs.marks.isdisjoint([total >> _MARK_SHIFT for total in sums]):
            continue
        likely = [at for at, total in enumerate(sums) if total >> _MARK_SHIFT in runs.marks]
        if runs is buried.parts:
            found += _cut_off(buried.salt, runs, text, words, likely)
            continue
        for at in likely:
            window = words[at : at + length]
            if digest_of_run(buried.salt, [word for word, _, _ in window]) in runs.digests:
                found.append((window[0][1], window[-1][2]))
    return found


def _cut_off(salt: str, parts: Runs, text: str, words: Sequence[Word], likely: Sequence[int]) -> list[Span]:
    def known(at: int, place: str) -> bool:
        return digest_of_part(salt, [word for word, _, _ in words[at : at + RUN_WORDS]], place) in parts.digests

    places = [at for at in likely if known(at, PART)]
    return cut_off(text, words, places, lambda at: (known(at, FIRST), known(at, LAST)))


@lru_cache(maxsize=65_536)
def _value(salt: str, word: str) -> int:
    digest = hmac.digest(bytes.fromhex(salt), word.encode("utf-8", "surrogatepass"), "sha256")
    return int.from_bytes(digest[:8], "big")
