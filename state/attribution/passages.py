"""Passages: the cheapest way to put a line together from passages of other texts, for attribution.

A reading explains each word of a line by a place in one of several texts, in that text's order. Every step away from
it costs something: to leave words out, to turn back, to go on in another text, to deny what stands there, to say as
one's own what is only reported there. The cheapest reading is the likeliest origin.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from state.attribution.forms import Crowd, are_forms, by_key, key_of
from state.attribution.wording import CONTENT, Word, wording
from state.text.remembered import remembered

NOWHERE = -1
# To leave words out in between, and to turn back.
_GAP, _BACK = 0.15, 0.5
# A word that is denied here and not there; one that is said here and only reported there.
_DENIED, _REPORTED = 0.75, 0.75
_NEAR = 3
_MOST_SOURCES = 12
_MOST_PLACES = 24
_STATES = 48
# So few words of a key are looked at one by one.
_FEW = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """What it costs to read in a text: to begin with it, to go on in it with a new clause, and within one."""

    first: float
    clause: float
    within: float


@dataclass(frozen=True, slots=True)
class Source:
    """A text to read in, or a sentence of one: its words, and where each is.

    Sentences of different texts may have the same words, in other places or of other weight: what is remembered of a
    source goes by its `parent` and `number` too.
    """

    text: str
    entry: Entry
    words: tuple[Word, ...] = field(compare=False)
    places: Mapping[str, tuple[int, ...]] = field(compare=False)
    crowds: dict[str, Crowd] | None = field(compare=False)  # of keys that many words have, as they are asked for
    parent: "Source | None" = None
    number: int = 0

    def where(self, word: Word) -> list[int]:
        """The first places of a word, or of another form of it."""
        key = key_of(word.text)
        near = self.places.get(key, ())
        if self.crowds is None or len(near) <= _FEW:
            return [at for at in near if are_forms(word.text, self.words[at].text)]
        if key not in self.crowds:
            self.crowds[key] = Crowd((at, self.words[at].text) for at in near)
        return self.crowds[key].where(word.text, _MOST_PLACES)


class Step(NamedTuple):
    """One word of a line as a reading has it, for `cost`: after it the reading is at place `at` of a source.

    `explained`: the word stands there. `fits`: and is denied there as it is here.
    """

    total: float
    cost: float = 0.0
    source: int = NOWHERE
    at: int = NOWHERE
    explained: bool = False
    fits: bool = False
    before: "Step | None" = None


@remembered(300_000, lambda text, _: len(text))
def source_of(text: str, entry: Entry) -> Source:
    """The text, ready to be read in."""
    return _source(text, entry, wording(text))


@remembered(300_000, lambda source: len(source.text))
def sentences(source: Source) -> tuple[Source, ...]:
    """The sentences of a text by themselves."""
    groups = [tuple(group) for _, group in groupby(source.words, key=lambda word: word.sentence)]
    texts = (" ".join(word.text for word in words) for words in groups)
    return tuple(
        _source(text, source.entry, words, source, number)
        for number, (text, words) in enumerate(zip(texts, groups, strict=True))
    )


def nearest(line: Sequence[Word], sources: Iterable[Source]) -> list[Source]:
    """Those that have most of the words of a line, and of each word the one that has most of the others too."""
    weights = {key_of(word.text): word.weight for word in line if word.meaning}
    shares = [(sum(weight for key, weight in weights.items() if key in one.places), one) for one in sources]
    ranked = [one for share, one in sorted(shares, key=lambda pair: -pair[0]) if share]
    of_words = (next((one for one in ranked if key in one.places), None) for key in weights)
    return list(dict.fromkeys((*ranked[:_MOST_SOURCES], *(one for one in of_words if one))))


def reading(line: Sequence[Word], sources: Sequence[Source]) -> list[Step]:
    """The cheapest way to explain the words of a line by passages of these texts, a step for each word."""
    layer, begun = [Step(0.0)], set[int]()
    for word in line:
        opens = word.meaning and word.clause not in begun
        begun |= {word.clause} if opens else set()
        layer = _next(layer, word, sources, opens=opens)
    step: Step | None = layer[0]
    steps: list[Step] = []
    while step is not None and step.before is not None:
        steps.append(step)
        step = step.before
    return steps[::-1]


def _source(
    text: str, entry: Entry, words: tuple[Word, ...], parent: Source | None = None, number: int = 0
) -> Source:
    places = by_key((key_of(word.text), at) for at, word in enumerate(words) if word.meaning)
    has_crowds = any(len(ats) > _FEW for ats in places.values())
    return Source(text, entry, words, places, {} if has_crowds else None, parent, number)


def _next(layer: Sequence[Step], word: Word, sources: Sequence[Source], *, opens: bool) -> list[Step]:
    """The steps that may follow these for the next word, the cheapest to each place; both the cheapest first."""
    skipped = (Step(step.total + word.weight, word.weight, step.source, step.at, before=step) for step in layer)
    best = {(step.source, step.at): step for step in skipped}
    cheapest, here = layer[0], defaultdict[int, list[Step]](list)
    for step in layer:
        here[step.source].append(step)
    for number, source in enumerate(sources):
        if not word.meaning and number not in here:
            continue
        entry = _entry(source.entry, cheapest, opens=opens)
        for at in source.where(word) if word.meaning else _ahead(word, source, here[number]):
            there = source.words[at]
            misfit = _misfit(word, there)
            known = best.get((number, at))
            before, cost, total = None, 0.0, known.total if known is not None else math.inf
            for step in here[number]:
                if step.total + misfit >= total:
                    break  # nor can those behind it be better, which cost more
                way = _move(step.at, at) + misfit
                if step.total + way < total:
                    before, cost, total = step, way, step.total + way
            if word.meaning and cheapest.total + (entry + misfit) < total:
                before, cost, total = cheapest, entry + misfit, cheapest.total + (entry + misfit)
            if before is not None:
                fits = word.denied is there.denied
                best[number, at] = Step(total, cost, number, at, explained=True, fits=fits, before=before)
    return sorted(best.values(), key=lambda one: one.total)[:_STATES]


def _entry(entry: Entry, before: Step, *, opens: bool) -> float:
    if before.source == NOWHERE:
        return entry.first
    return entry.clause if opens else entry.within


def _ahead(word: Word, source: Source, here: Sequence[Step]) -> list[int]:
    """Where a stop word stands that the reading is about to come by."""
    near = {at for step in here for at in range(step.at + 1, min(step.at + 1 + _NEAR, len(source.words)))}
    return [at for at in near if source.words[at].text == word.text]


def _misfit(word: Word, there: Word) -> float:
    if not word.meaning:
        return 0.0
    denied = _DENIED if word.denied is not there.denied else 0.0
    return min(word.weight, CONTENT) * (denied + (_REPORTED if there.only_reports(word) else 0.0))


def _move(here: int, there: int) -> float:
    if there == here + 1:
        return 0.0
    return _GAP if there > here else _BACK
