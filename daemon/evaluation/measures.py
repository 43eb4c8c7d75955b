"""Measures: what a memory is worth, fact by fact, with intervals of confidence over the facts.

Each measure judges one fact in one memory: a number in [0, 1] (of `lines` a count), or None where the fact has
nothing to be measured by. A figure is their mean; its interval comes from drawing the facts anew (bootstrap, seeded).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from daemon.evaluation.life import Fact, Statement

FIRST, FOUND = 10, 5
_DRAWS = 2_000
_TAIL = 2.5  # per cent on each side


@dataclass(frozen=True, slots=True)
class Found:
    """A hit of a search; `replaced_by` is the text that supersedes it, by the search's own word."""

    text: str
    replaced_by: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """What an agent has at the end of a life, by fact where it was asked for.

    `lines`: what MEMORY.md asserts (None: there is none). `now` and `past`: the hits of the questions. `contexts`:
    what stands in the bootstrap and five hits within the budget. `replaced`: each text that was revised, merged or
    hidden, with what stands for it. `unsettled`: the share of lines that a second dream on the same input changes.
    """

    lines: tuple[str, ...] | None
    now: Mapping[str, tuple[Found, ...]]
    past: Mapping[str, tuple[Found, ...]]
    contexts: Mapping[str, tuple[str, ...]]
    replaced: tuple[tuple[str, str], ...] = ()
    unsettled: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure: what it is called, and how one fact is judged. `more`: more of it is better."""

    name: str
    title: str
    judge: Callable[[Fact, Memory], float | None]
    more: bool = True


def current_first(fact: Fact, memory: Memory) -> float | None:
    """Of the hits that state the fact, the first gives the value that holds; 0 when none states it."""
    if not fact.superseded:
        return None
    said = _first_statement(fact, memory.now[fact.id])
    return float(said is not None and fact.is_current(said))


def older_first(fact: Fact, memory: Memory) -> float | None:
    """Of the hits of the question about the past that state the fact, the first gives an older value."""
    if not fact.superseded or not fact.past:
        return None
    said = _first_statement(fact, memory.past[fact.id])
    return float(said is not None and not fact.is_current(said))


def stale(fact: Fact, memory: Memory) -> float | None:
    """A line of MEMORY.md asserts a value that holds no more."""
    if not fact.superseded or memory.lines is None:
        return None
    said = [fact.stated_in(line) for line in memory.lines]
    return float(any(one is not None and not fact.is_current(one) for one in said))


def current_written(fact: Fact, memory: Memory) -> float | None:
    """A line of MEMORY.md asserts the value that holds."""
    return None if memory.lines is None else float(_asserts(fact, memory.lines))


def retention(fact: Fact, memory: Memory) -> float | None:
    """What holds can be found: it stands in MEMORY.md, or within the first five hits of its question."""
    hits = [hit.text for hit in memory.now[fact.id][:FOUND]]
    return float(_asserts(fact, (*(memory.lines or ()), *hits)))


def history(fact: Fact, memory: Memory) -> float | None:
    """The share of what held before that can still be found, within ten hits of either question."""
    if not fact.superseded:
        return None
    hits = [*memory.now[fact.id], *memory.past.get(fact.id, ())]
    said = {one.value for hit in hits if (one := fact.stated_in(hit.text)) is not None}
    wanted = {one.value for one in fact.superseded}
    return len(wanted & said) / len(wanted)


def lines(fact: Fact, memory: Memory) -> float | None:
    """How many lines of MEMORY.md state the fact, of those that stand there at all."""
    count = sum(fact.stated_in(line) is not None for line in memory.lines or ())
    return float(count) if count else None


def apart(fact: Fact, memory: Memory) -> float | None:
    """Nothing that stated the fact was merged with, hidden behind, or superseded by what states it not."""
    if not fact.alike:
        return None
    marked = [(hit.text, hit.replaced_by) for hit in memory.now[fact.id] if hit.replaced_by]
    return float(
        all(
            fact.stated_in(new) is not None
            for old, new in (*memory.replaced, *marked)
            if fact.stated_in(old) is not None
        )
    )


def answers(fact: Fact, memory: Memory) -> float | None:
    """What holds stands in what the agent reads: the bootstrap and five hits, within the budget."""
    return float(_asserts(fact, memory.contexts[fact.id]))


MEASURES = (
    Measure("current_first", "the value that holds stands first in search", current_first),
    Measure("older_first", "asked for what was before, the older one stands first", older_first),
    Measure("stale", "MEMORY.md asserts a superseded value", stale, more=False),
    Measure("current_written", "MEMORY.md has what holds", current_written),
    Measure("retention", "what holds is in MEMORY.md or within five hits", retention),
    Measure("history", "what held before is within ten hits", history),
    Measure("lines", "lines for each fact that stands in MEMORY.md", lines, more=False),
    Measure("apart", "facts alike in shape are kept apart", apart),
    Measure("answers", "answered by bootstrap and five hits within the budget", answers),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over facts and the bounds of its interval (95 %)."""

    mean: float
    low: float
    high: float
    facts: int


def outcomes(measure: Measure, facts: Sequence[Fact], memory: Memory) -> dict[str, float]:
    """What the measure says of each fact that it can judge, by the fact's id."""
    judged = {fact.id: measure.judge(fact, memory) for fact in facts}
    return {id_: value for id_, value in judged.items() if value is not None}


def figure(values: Sequence[float], seed: int) -> Figure | None:
    """The mean with its interval; None without a value."""
    if not values:
        return None
    import numpy as np

    sample = np.asarray(values, dtype=float)
    chosen = np.random.default_rng(seed).integers(0, len(sample), (_DRAWS, len(sample)))
    low, high = np.percentile(sample[chosen].mean(axis=1), (_TAIL, 100 - _TAIL))
    return Figure(float(sample.mean()), float(low), float(high), len(sample))


def difference(one: Mapping[str, float], other: Mapping[str, float], seed: int) -> Figure | None:
    """The mean of one minus other, fact by fact, over the facts that both have."""
    return figure([one[id_] - other[id_] for id_ in one if id_ in other], seed)


def _first_statement(fact: Fact, hits: Sequence[Found]) -> Statement | None:
    return next((said for hit in hits[:FIRST] if (said := fact.stated_in(hit.text)) is not None), None)


def _asserts(fact: Fact, texts: Sequence[str]) -> bool:
    return any((said := fact.stated_in(text)) is not None and fact.is_current(said) for text in texts)
