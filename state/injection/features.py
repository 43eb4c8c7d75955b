"""Features: weak signs of prompt injection with weights that decide together where no pattern is sure.

A sign, a row of features.toml, is a pattern over folded text on one line (lower case, no accents), with the kind of
trick that it speaks for and a weight. The weights of the signs that are in a passage add up; the passage commands
when they reach 1. Negative ones speak for a person who tells what they want, or asks. The weights are of a logistic
fit on the tuning half of the corpora in tests/poison (honest texts counted double), rounded, and some then lowered by
hand where ordinary talk was taken for orders; `python -m benchmarks.injection` says what they are worth.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from state.injection.hints import Hints, Pieces, hints_of
from state.injection.patterns import Poison, plain_pattern, read_rows, read_table
from state.text.patterns import late_pattern

_FILE = Path(__file__).with_name("features.toml")
COMMANDS = 1.0
_ROUNDING = 1e-6
_WINDOW = 3  # sentences that are read together
_LONGEST = 600
# Folded text has ASCII marks in Chinese too, with no blank behind them.
_SENTENCE = late_pattern(r"(?<=[.!?;])(?:\s+|(?=[^\x00-\x7f]))|(?<=。)")
_EXAMPLES, _REPEATED = 4, 6
_TURN = late_pattern(
    r"[-*>#\s]*((?:q|a|user|assistant|human|ai|agent|bot|you|me|input|output|response|request|question|answer))\b"
    r"(?: ?\d{1,3})? ?:?(.{0,200})"
)
_QUESTION_LABELS = {"q", "a", "question", "answer", "input", "output", "request", "response"}
_SAME = late_pattern(r"[\d\W_]+")
_ABOUT_AGENTS = late_pattern(r"assistant|agent|user|obey|comply|complied|trusted|refuse|iwill|confirm")


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign. `weight` below 0: it speaks against."""

    name: str
    kind: Poison
    weight: float
    pattern: re.Pattern[str]
    hints: Hints

    @property
    def opens(self) -> bool:
        return self.pattern.pattern.startswith("^")

    @property
    def ends(self) -> bool:
        return self.pattern.pattern.endswith("$")


@cache
def signs() -> tuple[Sign, ...]:
    """The signs of features.toml. Compiled when first used."""
    made = []
    for row in read_rows(read_table(_FILE), "sign"):
        plain = plain_pattern(row.pattern)
        made.append(Sign(row.name, row.kind, row.weight, late_pattern(plain), hints_of(plain)))
    return tuple(made)


def commanding(flat: str, pieces: Pieces) -> tuple[Poison, str] | None:
    """The weightiest kind and the passage that commands; None when no three sentences in a row do.

    Every one, two and three sentences in a row are a passage: what follows a command does not soften it.
    """
    sentences = list(_sentences(flat))
    known = _known(dict.fromkeys(sentences), pieces)
    if known is None:
        return None
    for length in range(1, _WINDOW + 1):
        for at in range(len(sentences) - length + 1):
            passage = sentences[at : at + length]
            found = _together([known[one] for one in passage])
            if sum(sign.weight for sign in found) >= COMMANDS:
                return max(found, key=lambda sign: sign.weight).kind, " ".join(passage)
    return None


def _known(sentences: Iterable[str], pieces: Pieces) -> Mapping[str, list[Sign]] | None:
    """The signs of each sentence; None as soon as all that are in the text together weigh too little."""
    possible = [sign for sign in signs() if pieces.may_match(sign.hints)]
    known: dict[str, list[Sign]] = {one: [] for one in sentences}
    most = sum(max(0.0, sign.weight) for sign in possible)
    for sign in sorted(possible, key=lambda sign: -sign.weight):
        hints = pieces.of(sign.hints)
        likely = [one for one in known if any(hint in one for hint in hints)] if sign.hints else known
        there = [one for one in likely if sign.pattern.search(one)]
        for one in there:
            known[one].append(sign)
        most -= 0.0 if there else max(0.0, sign.weight)
        if most < COMMANDS - _ROUNDING:
            return None
    return known


def by_example(folded: str) -> str | None:
    """A habit taught by repetition: a dialogue of four pairs or more, or one sentence over and over about agents."""
    rows = [row.strip() for row in folded.splitlines() if row.strip()]
    spoken = [match for row in rows if (match := _TURN.match(row))]
    heard = Counter(match[1] for match in spoken)
    if len(heard) > 1 and sorted(heard.values())[-2] >= _EXAMPLES:
        answers = [match[2] for match in spoken]
        alike = len({_SAME.sub("", one) for one in answers}) <= (len(answers) + 2) // 2
        if alike or not set(heard) <= _QUESTION_LABELS:
            return spoken[0].group()
    flat = [_SAME.sub("", one) for one in (*rows, *_SENTENCE.split(" ".join(rows)))]
    said = Counter(one for one in flat if _ABOUT_AGENTS.search(one)).most_common(1)
    return said[0][0] if said and said[0][1] >= _REPEATED else None


def _sentences(flat: str) -> Iterator[str]:
    """The sentences of a text; of a very long one the parts, cut at words."""
    for sentence in _SENTENCE.split(flat):
        rest = sentence.strip()
        while len(rest) > _LONGEST:
            cut = rest.rfind(" ", _LONGEST // 2, _LONGEST)
            at = cut if cut > 0 else _LONGEST
            yield rest[:at]
            rest = rest[at:].lstrip()
        if rest:
            yield rest


def _together(sentences: Sequence[Sequence[Sign]]) -> set[Sign]:
    """The signs of a passage: what opens one speaks in its first sentence alone, what ends one in its last."""
    last = len(sentences) - 1
    return {
        sign
        for at, found in enumerate(sentences)
        for sign in found
        if not ((sign.opens and at > 0) or (sign.ends and at < last))
    }
