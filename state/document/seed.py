"""Seed: takes over a MEMORY.md from before the first dream without losing any of it.

Its text becomes crystals; the first dream writes below a rule and a comment, and later dreams integrate the old text.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime

from state.crystals.crystal import Crystal, Lifecycle, Origin, Source
from state.text.chunks import chunk
from state.trust import Trust

MARKER = "<!-- Dream-generated working memory follows. Subsequent dreams gradually integrate the text above. -->"
IMPORTANCE = 0.75
_FILE = "MEMORY.md"
_BELOW = re.compile(rf"(?:\r\n\r\n---\r\n\r\n|\n\n---\n\n|^|(?<=\n)){re.escape(MARKER)}(?:\r\n\r\n|\n\n|\r?\n|\Z)")


def seed_crystals(text: str, at: datetime, cut: Callable[[str], Sequence[str]] = chunk) -> tuple[Crystal, ...]:
    """Cut the text into crystals: importance .75, consolidated, the owner's word, each with its line numbers.

    `cut` makes the chunks, by default of 400 tokens with 80 overlap. Equal chunks become one crystal.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    crystals: dict[str, Crystal] = {}
    searched_from = 0
    for piece in cut(text):
        start = text.find(piece, searched_from)
        searched_from = start + 1 if start >= 0 else searched_from
        crystal = Crystal(
            text=piece,
            origin=Origin.SEED,
            created_at=at,
            importance=IMPORTANCE,
            trust=Trust.OWNER,
            position=len(crystals),
            source=_source(text, piece, start, digest),
            lifecycle=Lifecycle.CONSOLIDATED,
        )
        if piece.strip():
            crystals.setdefault(crystal.digest, crystal)
    return tuple(crystals.values())


def appended(old_text: str, generated: str) -> str:
    """Return the old text byte for byte, a rule, the comment, and the generated document."""
    newline = "\r\n" if "\r\n" in old_text else "\n"
    return old_text + newline * 2 + "---" + newline * 2 + MARKER + newline * 2 + generated


def split_seed(text: str) -> tuple[str, str] | None:
    """Return (old text, what dreams wrote), the inverse of `appended`; None if no marker separates them.

    The last marker counts: dreams write none.
    """
    found = list(_BELOW.finditer(text))
    return (text[: found[-1].start()], text[found[-1].end() :]) if found else None


def _source(text: str, piece: str, start: int, digest: str) -> Source:
    if start < 0:
        return Source(_FILE, 1, max(1, len(text.splitlines())), digest)
    first = text.count("\n", 0, start) + 1
    return Source(_FILE, first, first + piece.rstrip("\n").count("\n"), digest)
