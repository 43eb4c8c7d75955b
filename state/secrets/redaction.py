"""Redaction: replaces secrets by `[redacted: kind]` before a text reaches a model, a crystal or MEMORY.md.

It finds keys with a recognisable shape (rules/), private keys, addresses with a password, and values beside a word
for a secret (languages/). Entropy alone does not make a secret: hashes, UUIDs and pictures stay.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from state.secrets.keys import private_keys
from state.secrets.rules import every, ours, shaped
from state.secrets.settings import settings
from state.secrets.told.context import MARK, in_context
from state.secrets.told.judge import Judge, is_told
from state.secrets.told.pairs import addresses
from state.secrets.value import forget
from state.secrets.wallets import listed_wallets, wallets
from state.text.patterns import late_pattern

_PASSES = 4
_SHORTEST = 8
# The shortest token with a shape contains a run of this many characters, including a digit.
_MARKED = late_pattern(re.escape(MARK) + r"[^\]\n]{1,60}\]?")
_RUN = late_pattern(r"[\w+/=.~:$-]{12,}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret at text[start:end] of the original text."""

    kind: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        """Return the mark that replaces the secret."""
        return f"{MARK}{self.kind}]"


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text without its secrets, and where they were, in order, without overlaps."""

    text: str
    found: tuple[Finding, ...] = ()


def redact(text: str, allow: Sequence[str] = (), judge: Judge = is_told, known: Sequence[str] = ()) -> Redacted:
    """Replace every secret by `[redacted: kind]`, except within a text of `allow`.

    A whole word that occurs in a text of `known` is no secret either. `judge` decides on secrets told in sentences.
    Idempotent. Takes linear time in the text's length.
    """
    redacted, found = text, tuple[Finding, ...]()
    # A sentence about one secret may only be recognised after another secret inside it is gone.
    for _ in range(_PASSES if len(text) >= _SHORTEST else 0):
        more = [
            one for one in _findings(redacted, allow, judge) if not _occurs_in(known, redacted[one.start : one.end])
        ]
        if not more:
            break
        found = _merged([*found, *_in_original(found, more)])
        redacted = replaced(text, found)
    forget()
    return Redacted(redacted, found)


def redact_across(text: str, allow: Sequence[str] = ()) -> str:
    """Replace what is a secret by its own look, also over many lines: private keys and seed phrases."""
    found = _unless_allowed(text, allow, [Finding(*one) for one in chain(private_keys(text), listed_wallets(text))])
    return replaced(text, _merged(found))


def _findings(text: str, allow: Sequence[str], judge: Judge) -> list[Finding]:
    marks = [match.span() for match in _MARKED.finditer(text)] if MARK in text else []
    told = in_context(text, judge)
    candidates = chain(private_keys(text), _shaped(text), addresses(text), told, settings(text), wallets(text))
    found = [Finding(kind, start, end) for kind, start, end in candidates if not _touches(marks, start, end)]
    return _unless_allowed(text, allow, found)


def _unless_allowed(text: str, allow: Sequence[str], found: list[Finding]) -> list[Finding]:
    if not (allow and found):
        return found
    allowed = [match.span() for one in allow if one for match in re.finditer(re.escape(one), text)]
    return [one for one in found if not any(start <= one.start and one.end <= end for start, end in allowed)]


def _occurs_in(known: Sequence[str], value: str) -> bool:
    """Return whether a value occurs in one of the texts, not as part of a word."""
    if not any(value in text for text in known):
        return False
    whole = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
    return any(whole.search(text) for text in known)


def _touches(marks: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether a span touches an earlier mark."""
    after = bisect_right(marks, (start, len(MARK) + end))
    return (after > 0 and marks[after - 1][1] > start) or (after < len(marks) and marks[after][0] < end)


def _shaped(text: str) -> Iterator[tuple[str, int, int]]:
    # Most notes contain nothing in a shape of gitleaks' rules, which are slow to load for a session start.
    drawn = any(any(map(str.isdigit, run.group())) for run in _RUN.finditer(text))
    yield from shaped(text, text.lower(), every if drawn else ours)


def replaced(text: str, found: Sequence[Finding]) -> str:
    """Return the text with each finding replaced by its mark."""
    pieces, at = [], 0
    for finding in found:
        pieces += [text[at : finding.start], finding.mark]
        at = finding.end
    return "".join([*pieces, text[at:]])


def _in_original(found: Sequence[Finding], more: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of a later pass with their places in the text before `found` was replaced."""
    shifts, shift = [0], 0
    ends = []  # of the marks, in the text that the later pass read
    for one in found:
        shift += len(one.mark) - (one.end - one.start)
        ends.append(one.end + shift)
        shifts.append(shift)
    for one in more:
        moved = shifts[bisect_right(ends, one.start)]
        yield Finding(one.kind, one.start - moved, one.end - moved)


def _merged(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge overlapping findings; the kind is that of the first, or of the longest of those."""
    apart: list[Finding] = []
    for finding in sorted(found, key=lambda one: (one.start, -one.end)):
        if apart and finding.start < apart[-1].end:
            apart[-1] = Finding(apart[-1].kind, apart[-1].start, max(apart[-1].end, finding.end))
        else:
            apart.append(finding)
    return tuple(apart)
