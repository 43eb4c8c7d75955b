"""Digests: salted ones of runs of words and of letters, which say nothing about the words; what is buried is kept so.

Each run has a mark of 16 bits beside its digest, made of its words by a sum that rolls along a text: only where the
mark fits, a digest is made.
"""

import hashlib
import hmac
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_BITS = 64
MASK_OF_SUMS = (1 << _BITS) - 1
_MARK_SHIFT = _BITS - 16
TIMES = 31
# No word begins with such a sign.
PART, FIRST, LAST = ".part", ".first", ".last"


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
        total = (total * TIMES + value_of(salt, word)) & MASK_OF_SUMS
    return mark_of_sum(total)


def mark_of_sum(total: int) -> int:
    """The mark of a run whose words, or letters, have this sum."""
    return total >> _MARK_SHIFT


@lru_cache(maxsize=65_536)
def value_of(salt: str, word: str) -> int:
    """What a word, or a letter, is in a sum."""
    digest = hmac.digest(bytes.fromhex(salt), word.encode("utf-8", "surrogatepass"), "sha256")
    return int.from_bytes(digest[:8], "big")
