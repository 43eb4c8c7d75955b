"""Digests: salted hashes of word and letter runs, to recognise forgotten texts without keeping them.

Each digest has a 16-bit mark beside it, computed from the run's words by a rolling sum. Only where the mark of a
passage matches is the digest computed.
"""

import hashlib
import hmac
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

_BITS = 64
_MASK = (1 << _BITS) - 1
_MARK_BITS = 16
_MARK_SHIFT = _BITS - _MARK_BITS
_TIMES = 31
_BACK = pow(_TIMES, -1, _MASK + 1)
# Number of words or letters from which numpy saves time: when it is loaded, and including its load time.
_SOME, _MANY = 1 << 8, 1 << 13


def digest_of_text(salt: str, text: str) -> str:
    """Return the digest of a whole text, without outer white space and in one Unicode form."""
    folded = unicodedata.normalize("NFC", text.strip()).encode("utf-8", "surrogatepass")
    return hmac.new(bytes.fromhex(salt), folded, hashlib.sha256).hexdigest()


def digest_of_letters(salt: str, said: str) -> str:
    """Return the digest of a run of letters (32 hexadecimal digits); without a salt, the letters themselves."""
    message = f"2\0.letters {said}".encode("utf-8", "surrogatepass")
    return hmac.digest(bytes.fromhex(salt), message, "sha256")[:16].hex() if salt else said


def mark_of_run(salt: str, words: Sequence[str]) -> int:
    """Return the 16-bit mark of a run of words or letters, which reveals none of them."""
    return sums_of(salt, words)[-1] >> _MARK_SHIFT


def sums_of(salt: str, words: Sequence[str]) -> Sequence[int]:
    """Return the rolling sums of all prefixes of a text, including the empty one, for `marked_places`."""
    values = {word: value_of(salt, word) for word in set(words)}
    if len(words) >= (_SOME if "numpy" in sys.modules else _MANY):
        many: Sequence[int] = _sums_of_many(values, words)
        return many
    sums, total = [0], 0
    for word in words:
        total = (total * _TIMES + values[word]) & _MASK
        sums.append(total)
    return sums


def marked_places(sums: Sequence[int], size: int, marks: Collection[int]) -> list[tuple[int, int]]:
    """Return (place, mark) of each run of this size whose mark is among these, in a text with these sums."""
    power = pow(_TIMES, size, _MASK + 1)
    if not isinstance(sums, list):
        return _marked_of_many(sums, size, power, marks)
    return [
        (at, mark)
        for at, (before, after) in enumerate(zip(sums, sums[size:], strict=False))
        if (mark := ((after - before * power) & _MASK) >> _MARK_SHIFT) in marks
    ]


def _sums_of_many(values: Mapping[str, int], words: Sequence[str]) -> Any:  # noqa: ANN401 - numpy's, loaded late
    """Compute `sums_of` with numpy: divided by 31^place, each sum is its predecessor plus a value."""
    import numpy as np

    each = np.fromiter(map(values.__getitem__, words), np.uint64, len(words))
    times, back = (np.cumprod(np.full(len(words), one, np.uint64)) for one in (_TIMES, _BACK))
    return np.concatenate([np.zeros(1, np.uint64), times * np.cumsum(each * back)])


def _marked_of_many(sums: Any, size: int, power: int, marks: Collection[int]) -> list[tuple[int, int]]:  # noqa: ANN401
    import numpy as np

    marked = np.zeros(1 << _MARK_BITS, dtype=bool)
    marked[list(marks)] = True
    found = (sums[size:] - sums[:-size] * np.uint64(power)) >> np.uint64(_MARK_SHIFT)
    places = np.flatnonzero(marked[found])
    return list(zip(places.tolist(), found[places].tolist(), strict=True))


@lru_cache(maxsize=65_536)
def value_of(salt: str, word: str) -> int:
    """Return the 64-bit value of a word or letter in the rolling sum."""
    digest = hmac.digest(bytes.fromhex(salt), word.encode("utf-8", "surrogatepass"), "sha256")
    return int.from_bytes(digest[:8], "big")
