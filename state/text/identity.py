"""Identity of texts: whether two statements say the same, or the newer one gives a subject another value.

The one place where this is decided: for duplicates, contradictions, guards, attribution, and a dream without a model.
Two measures in [0, 1], each a sum of small decision trees over what `state.text.statement` reads of both texts and,
where it is known, the cosine of their vectors. The trees are in identity.json, fitted by `benchmarks.fit_identity`.
Stop words are for the search: here every word counts, but for articles and those that only link others.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from state.text import pair
from state.text.statement import read_together

# From so much on the one stands for the other; and the newer one for the older.
SAME = 0.8
UPDATE = 0.5
# So much is worth a second look: at whom to believe, and in which order two results stand.
PERHAPS = 0.2


@dataclass(frozen=True, slots=True)
class Comparison:
    """How sure it is that both say the same, and that the newer one replaces the older one's value.

    `apart` says that they are about different subjects, in the same words otherwise; `tells` that the newer one says
    that something has changed.
    """

    same: float
    update: float
    apart: bool = False
    tells: bool = False


@lru_cache(maxsize=8_192)
def compare(older: str, newer: str, cosine: float | None = None) -> Comparison:
    """The comparison of two texts; `cosine` is that of their vectors, when it is known."""
    if older == newer:
        return Comparison(1.0, 0.0)
    both = pair.Pair(*read_together(older, newer))
    tells = bool(both.newer.changes)
    if both.apart():  # most are; the trees are not asked
        return Comparison(0.0, 0.0, apart=True, tells=tells)
    found = _features(both, cosine)
    same = _measure("same").of(found) if found["may_be_same"] else 0.0
    return Comparison(same, _measure("update").of(found), tells=tells)


def update(older: str, newer: str, cosine: float | None = None) -> float:
    """How sure it is that the newer text replaces the older one's value."""
    return compare(older, newer, cosine).update


def same_words(one: str, other: str) -> bool:
    """Whether both have the same words, in the same order or with one stretch of them moved. Symmetric."""
    return pair.same_words(*read_together(one, other))


def features(older: str, newer: str, cosine: float | None = None) -> dict[str, float]:
    """What the trees ask of a pair, by name."""
    return _features(pair.Pair(*read_together(older, newer)), cosine)


def _features(both: pair.Pair, cosine: float | None) -> dict[str, float]:
    found = both.words() | both.names() | both.numbers() | both.turns() | both.limits()
    near = 0.45 + 0.5 * found["covered_least"] if cosine is None else cosine
    return found | {"cosine": near, "cosine_covered": near * found["covered_least"]}


# (feature, at most, lower, higher); of a leaf (-1, value, 0, 0).
_Node = tuple[int, float, int, int]


@dataclass(frozen=True, slots=True)
class _Measure:
    """The start and the trees of a measure."""

    start: float
    features: tuple[str, ...]
    trees: tuple[tuple[_Node, ...], ...]

    def of(self, found: Mapping[str, float]) -> float:
        """The measure of what was found, in [0, 1]."""
        total, values = self.start, [found[name] for name in self.features]
        for tree in self.trees:
            feature, most, lower, higher = tree[0]
            while feature >= 0:
                feature, most, lower, higher = tree[lower if values[feature] <= most else higher]
            total += most
        return 1.0 / (1.0 + math.exp(-total))


@cache
def _measure(name: str) -> _Measure:
    content = json.loads(resources.files("state.text").joinpath("identity.json").read_text(encoding="utf-8"))[name]
    trees = tuple(tuple(map(_node, tree)) for tree in content["trees"])
    return _Measure(content["start"], tuple(content["features"]), trees)


def _node(written: Sequence[float]) -> _Node:
    """A node as the file has it: a leaf has its value alone."""
    if len(written) == 1:
        return -1, written[0], 0, 0
    feature, most, lower, higher = written
    return int(feature), most, int(lower), int(higher)
