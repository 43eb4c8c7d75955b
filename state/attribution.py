"""Attribution: whose words a new line is made of, whatever it cites, and how it may stand in MEMORY.md.

A line is read as passages, each taken from one text in that text's order. The cheapest such reading that uses
vouchers alone (texts of the agent or the owner) is compared with the cheapest one that may use strangers' texts too:
where the stranger explains a passage better, it is the stranger's. So the wording of one voucher counts, its order,
its denials and what it only reports, not a bag of words that many vouchers have together.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from state.crystal import Trust, least_trust
from state.injection import quote, reads_as_instruction, unquoted
from state.wording import CONTENT, NOT, Word, key_of, same_word, wording
from state.words import normalise

# What a reading costs: to leave words out in between, to turn the order round, to go on in another text.
_GAP, _BACK, _OTHER, _OTHER_CLAUSE = 0.15, 0.5, 0.8, 0.3
_STRANGER, _STRANGER_CLAUSE, _STRANGER_FIRST = 0.9, 0.6, 0.5
# A word that is denied here and not there; one that is said here and only reported there.
_DENIED, _REPORTED = 0.75, 0.75
# So much cheaper is a reading with strangers, at least, in which a passage is a stranger's.
_MARGIN = 0.4
_CLAUSE_MARGIN = 0.1  # where it is whole clauses
# Who has so much of the words of a line that the vouchers say otherwise by so much, disputes it.
_RIVAL, _OTHERWISE = 0.75, 0.9
# Nobody's is a clause of whose words so many, and such a share, no voucher has; or so many in a row.
_UNSAID, _UNSAID_SHARE, _UNSAID_ROW = 2.0, 0.6, 3.0
# Who explains less of a line than this has no part in it.
_PART = 0.34
_NEAR = 3
_MOST_VOICES = 12
_STATES = 48
_NOWHERE = -1

_COUNTED = re.compile(
    r"\s{0,9}(?:→|⟶|➔|➜|⇒|[-=]{1,4}>)\s{0,9}[*_]{0,3}(?=confidence[*_]{0,3}\s{0,9}:)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Voice:
    """A text and who said it. `cited`: the line names it, and so may well repeat it."""

    text: str
    trust: Trust
    cited: bool = False


@dataclass(frozen=True, slots=True)
class Foreign:
    """What in a line is not its vouchers': the words, the least trust of who said them, and whether it is all."""

    words: str
    trust: Trust
    all_of_it: bool


@dataclass(frozen=True, slots=True)
class _Source:
    """A text to read in: its words, and where each is."""

    text: str
    words: tuple[Word, ...] = field(compare=False)
    places: Mapping[str, tuple[int, ...]] = field(compare=False)
    entry: tuple[float, float, float]  # what it costs to begin with it, to go on in it with a clause, and within one


@dataclass(frozen=True, slots=True)
class _Step:
    """One word of a line as a reading has it, for `cost`: after it the reading is at place `at` of a source.

    `explained`: the word stands there. `fits`: and is denied there as it is here.
    """

    total: float
    cost: float = 0.0
    source: int = _NOWHERE
    at: int = _NOWHERE
    explained: bool = False
    fits: bool = False
    before: "_Step | None" = None


_VOUCHED = (0.0, _OTHER_CLAUSE, _OTHER)
_STRANGE = (_STRANGER_FIRST, _STRANGER_CLAUSE, _STRANGER)
_CITED = (0.05, 0.1, 0.2)


def foreign(text: str, vouchers: Sequence[str], strangers: Sequence[Voice]) -> Foreign | None:
    """What in this text is not the vouchers' although strangers are about; None when nothing is."""
    line, others = wording(text), strangers
    if not others:
        return None
    if not any(word.meaning for word in line):
        said = any(normalise(text) == normalise(one) for one in vouchers)
        return None if said else Foreign(text[:80], least_trust([one.trust for one in others]), all_of_it=True)
    own = _nearest(line, [_source(one, _VOUCHED) for one in dict.fromkeys(vouchers)])
    near = {_source(one.text, _CITED if one.cited else _STRANGE): one for one in others}
    strange = _nearest(line, list(near))
    alone, both = _reading(line, own), _reading(line, [*own, *strange])
    gain = sum(step.cost for step in alone) - sum(step.cost for step in both)
    theirs = [at for at, step in enumerate(both) if step.source >= len(own) and step.explained and line[at].meaning]
    theirs = theirs if any(line[at].text != NOT for at in theirs) else []
    voices = [near[strange[both[at].source - len(own)]] for at in theirs]
    whole = _whole_clauses(line, theirs)
    if theirs and gain >= (_CLAUSE_MARGIN if whole or any(one.cited for one in voices) else _MARGIN):
        return _found(line, theirs, both, len(own), least_trust([one.trust for one in voices]))
    unsaid = _unsaid(line, alone, own)
    if unsaid:
        return _found(line, unsaid, alone, len(own), least_trust([one.trust for one in others]))
    for disputed in _disputed(line, alone):
        rivals = [one for source, one in near.items() if _share([line[at] for at in disputed], source) >= _RIVAL]
        if rivals:
            return _found(line, disputed, alone, len(own), least_trust([one.trust for one in rivals]))
    return None


def repeated(text: str, strangers: Sequence[Voice]) -> Trust | None:
    """The least trust of those whose words most of a text is; None when it is said in other words."""
    line = wording(text)
    near = {_source(one.text, _STRANGE): one for one in strangers}
    sources = _nearest(line, list(near))
    theirs = [(word.weight, step) for word, step in zip(line, _reading(line, sources), strict=True) if step.explained]
    if not theirs or sum(weight for weight, _ in theirs) < _RIVAL * sum(word.weight for word in line):
        return None
    return least_trust([near[sources[step.source]].trust for _, step in theirs])


def attributed(text: str, trust: Trust) -> str:
    """How a line of this trust may stand in MEMORY.md: the owner's as it is, a stranger's as a quotation.

    This does not ask whether a stranger's text looks like an order. What an agent said is quoted when it reads as an
    order, or pretends to quote somebody else.
    """
    text = _COUNTED.sub(", ", text)  # only the program counts
    if trust is Trust.OWNER:
        return text
    if trust is Trust.AGENT:
        pretends = unquoted(text)[1] not in {None, trust}
        return quote(text, trust) if pretends or reads_as_instruction(text) else text
    return quote(text, trust)


def spoken_trust(text: str, trust: Trust) -> Trust:
    """The trust of a text: what stands as a quotation has its speaker's, if that is less."""
    _, speaker = unquoted(text)
    return least_trust([trust, speaker]) if speaker else trust


def _found(line: Sequence[Word], at: Sequence[int], steps: Sequence[_Step], own: int, trust: Trust) -> Foreign:
    words = " ".join(line[one].text for one in at)
    vouched = sum(
        word.weight
        for word, step in zip(line, steps, strict=True)
        if word.meaning and step.fits and step.source < own
    )
    weight = sum(word.weight for word in line if word.meaning)
    return Foreign(words if len(words) <= 80 else words[:79] + "…", trust, vouched < _PART * weight)


def _whole_clauses(line: Sequence[Word], theirs: Sequence[int]) -> bool:
    """Whether these are all the words of the clauses that they stand in, and those say something."""
    clauses = {line[at].clause for at in theirs}
    there = [at for at, word in enumerate(line) if word.clause in clauses and word.meaning]
    return there == list(theirs) and sum(line[at].weight for at in there) >= _UNSAID


def _disputed(line: Sequence[Word], steps: Sequence[_Step]) -> Iterator[list[int]]:
    """The words of all that is said, and of each clause, which the vouchers say otherwise."""
    parts = [list(range(len(line)))]
    parts += [list(group) for _, group in groupby(range(len(line)), key=lambda at: line[at].clause)]
    for part in parts:
        words = [at for at in part if line[at].meaning]
        if sum(steps[at].cost for at in part) >= _OTHERWISE and sum(line[at].weight for at in words) >= _UNSAID:
            yield words


def _share(line: Sequence[Word], source: _Source) -> float:
    """The share of the words of a line that a source has, in whatever order."""
    weights = [(word.weight, key_of(word.text) in source.places) for word in line if word.meaning]
    return sum(weight for weight, there in weights if there) / max(1.0, sum(weight for weight, _ in weights))


def _unsaid(line: Sequence[Word], steps: Sequence[_Step], sources: Sequence[_Source]) -> list[int]:
    """The words that are nobody's, where they are many.

    Numbers are looked at elsewhere; two characters that a voucher has, if not together, are another form of a word.
    """
    letters = set[str]().union(*(source.text for source in sources))
    unsaid = {
        at
        for at, (word, step) in enumerate(zip(line, steps, strict=True))
        if not (step.explained or word.text.isdecimal() or (word.text >= "\u0e00" and letters.issuperset(word.text)))
    }
    found: list[int] = []
    for _, group in groupby(range(len(line)), key=lambda at: line[at].clause):
        clause = [at for at in group if line[at].meaning]
        lacking = [at for at in clause if at in unsaid]
        lack = sum(line[at].weight for at in lacking)
        if lack >= _UNSAID and lack >= _UNSAID_SHARE * sum(line[at].weight for at in clause):
            found += lacking
    rows = groupby([at for at, word in enumerate(line) if word.meaning], key=lambda at: at in unsaid)
    for lacks, group in rows:
        row = list(group)
        if lacks and sum(line[at].weight for at in row) >= _UNSAID_ROW:
            found += row
    return sorted(set(found))


@lru_cache(maxsize=1_024)
def _source(text: str, entry: tuple[float, float, float]) -> _Source:
    words, places = wording(text), defaultdict[str, list[int]](list)
    for at, word in enumerate(words):
        if word.meaning:
            places[key_of(word.text)].append(at)
    return _Source(text, words, {key: tuple(found) for key, found in places.items()}, entry)


def _nearest(line: Sequence[Word], sources: Sequence[_Source]) -> list[_Source]:
    """Those that have most of the words of a line, and at least one."""
    weights = {key_of(word.text): word.weight for word in line if word.meaning}
    shares = [(sum(weight for key, weight in weights.items() if key in one.places), one) for one in sources]
    ranked = sorted((pair for pair in shares if pair[0]), key=lambda pair: -pair[0])
    return [one for _, one in ranked[:_MOST_VOICES]]


def _reading(line: Sequence[Word], sources: Sequence[_Source]) -> list[_Step]:
    """The cheapest way to explain the words of a line by passages of these texts, a step for each word."""
    layer, begun = [_Step(0.0)], set[int]()
    for word in line:
        opens = word.meaning and word.clause not in begun
        begun |= {word.clause} if opens else set()
        layer = _next(layer, word, sources, opens=opens)
    step: _Step | None = min(layer, key=lambda one: one.total)
    steps: list[_Step] = []
    while step is not None and step.before is not None:
        steps.append(step)
        step = step.before
    return steps[::-1]


def _next(layer: Sequence[_Step], word: Word, sources: Sequence[_Source], *, opens: bool) -> list[_Step]:
    """The steps that may follow these for the next word, the cheapest to each place."""
    best: dict[tuple[int, int], _Step] = {}

    def offer(before: _Step, cost: float, source: int, at: int, *, explained: bool, fits: bool) -> None:
        known = best.get((source, at))
        total = before.total + cost
        if known is None or total < known.total:
            best[source, at] = _Step(total, cost, source, at, explained, fits, before)

    cheapest = min(layer, key=lambda one: one.total)
    for step in layer:
        offer(step, word.weight, step.source, step.at, explained=False, fits=False)
    for number, source in enumerate(sources):
        here = [step for step in layer if step.source == number]
        for at in _places(word, source, here):
            there = source.words[at]
            misfit = _misfit(word, there)
            fits = word.denied is there.denied
            for step in here:
                offer(step, _move(step.at, at) + misfit, number, at, explained=True, fits=fits)
            entry = source.entry[0 if cheapest.before is None else 1 if opens else 2]
            if word.meaning:
                offer(cheapest, entry + misfit, number, at, explained=True, fits=fits)
    return sorted(best.values(), key=lambda one: one.total)[:_STATES]


def _places(word: Word, source: _Source, here: Sequence[_Step]) -> Iterable[int]:
    """Where a source has this word; a stop word only where the reading is about to come by."""
    if word.meaning:
        return [at for at in source.places.get(key_of(word.text), ()) if same_word(word.text, source.words[at].text)]
    near = {at for step in here for at in range(step.at + 1, min(step.at + 1 + _NEAR, len(source.words)))}
    return [at for at in near if source.words[at].text == word.text]


def _misfit(word: Word, there: Word) -> float:
    if not word.meaning:
        return 0.0
    denied = _DENIED if word.denied is not there.denied else 0.0
    return min(word.weight, CONTENT) * (denied + (_REPORTED if there.reported and not word.reported else 0.0))


def _move(here: int, there: int) -> float:
    if there == here + 1:
        return 0.0
    return _GAP if there > here else _BACK
