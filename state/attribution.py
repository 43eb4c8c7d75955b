"""Attribution: whose words a new line is made of, whatever it cites, and how it may stand in MEMORY.md.

A line is read as passages, each taken from one text in that text's order. The cheapest such reading that uses
vouchers alone (texts of the agent or the owner) is compared with the cheapest one that may use strangers' texts too:
where the stranger explains a passage better, it is the stranger's. So the wording of one voucher counts, its order,
its denials and what it only reports, not a bag of words that many vouchers have together.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, groupby

from state.crystal import Trust, least_trust
from state.injection import quote, reads_as_instruction, unquoted
from state.wording import CONTENT, NAME, NOT, Word, key_of, same_word, wording
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
# A voucher only mentions that of whose sentence so much is left out.
_MENTIONED = 0.3
# Nobody's is a clause of whose words so many, and such a share, no voucher has; or so many in a row.
_UNSAID, _UNSAID_SHARE, _UNSAID_ROW = 2.0, 0.7, 3.0
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
    unsaid = _unsaid(line[len(_heading(text)) :], own)
    unsaid = [at + len(_heading(text)) for at in unsaid]
    if unsaid:
        return _found(line, unsaid, alone, len(own), least_trust([one.trust for one in others]))
    for source, voice in near.items():
        disputed = next(filter(None, (_disputed(line, alone, own, said) for said in _sentences(source))), None)
        if disputed:
            return _found(line, disputed, alone, len(own), voice.trust)
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


def _heading(text: str) -> tuple[Word, ...]:
    """A word or two before a colon, by which a line that gathers several things is called."""
    head = wording(text.partition(":")[0]) if ":" in text else ()
    weight = sum(word.weight for word in head if word.meaning)
    return head if weight <= _UNSAID and len({word.clause for word in head}) == 1 else ()


def _disputed(line: Sequence[Word], steps: Sequence[_Step], own: Sequence[_Source], stranger: _Source) -> list[int]:
    """The words of which a stranger speaks too, and which the vouchers do not say like that; mostly there are none.

    That is a word that no voucher has among others that the stranger has; a part in which the vouchers are turned
    around, or of whose sentence they say more, when the stranger has most of it; partners that are exchanged.
    """
    theirs = [at for at, word in enumerate(line) if word.meaning and word.text != NOT and _has(stranger, word)]
    new = [at for at in theirs if not steps[at].explained]
    names = [
        at
        for at in new
        if not line[at].text.isdecimal() and max(line[at].weight, _weight_in(stranger, line[at])) >= NAME
    ]
    if names or (sum(line[at].weight for at in new) >= CONTENT and len(new) < len(theirs)):
        return new
    for part in _parts(line):
        weight = sum(line[at].weight for at in part)
        if weight < _UNSAID or sum(line[at].weight for at in part if at in theirs) < _RIVAL * weight:
            continue
        otherwise = sum(steps[at].cost for at in range(part[0], part[-1] + 1)) >= _OTHERWISE
        if otherwise or _mentioned(part, steps, own):
            return part
    crossed = _crossed(line, steps, own)
    return crossed if set(crossed) & set(theirs) else []


def _parts(line: Sequence[Word]) -> Iterator[list[int]]:
    """The words of all of a line, and those of each of its clauses."""
    words = [at for at, word in enumerate(line) if word.meaning]
    yield words
    for _, group in groupby(words, key=lambda at: line[at].clause):
        yield list(group)


def _mentioned(part: Sequence[int], steps: Sequence[_Step], own: Sequence[_Source]) -> bool:
    """Whether the vouchers only speak of it: their sentences say a good deal more than this."""
    used = {(steps[at].source, steps[at].at) for at in range(len(steps)) if steps[at].explained}
    sentences = {
        (steps[at].source, own[steps[at].source].words[steps[at].at].sentence) for at in part if steps[at].explained
    }
    whole = unused = 0.0
    for source, sentence in sentences:
        for at, word in enumerate(own[source].words):
            if word.meaning and word.sentence == sentence:
                whole += word.weight
                unused += word.weight if (source, at) not in used else 0.0
    return unused >= _MENTIONED * whole


def _crossed(line: Sequence[Word], steps: Sequence[_Step], own: Sequence[_Source]) -> list[int]:
    """The words of two phrases each of which has a part of the same two phrases of a voucher: roles are exchanged."""
    drawn = defaultdict[int, set[tuple[int, int]]](set)
    for word, step in zip(line, steps, strict=True):
        if not (word.meaning and step.explained):
            continue
        there = own[step.source]
        phrases = {there.words[at].phrase for at in _places(word, there, ())}
        if len(phrases) == 1:  # a word of both tells nothing
            drawn[word.phrase].add((step.source, phrases.pop()))
    for one, other in combinations(drawn, 2):
        if len(drawn[one] & drawn[other]) > 1:
            return [at for at, word in enumerate(line) if word.meaning and word.phrase in {one, other}]
    return []


def _has(source: _Source, word: Word) -> bool:
    return any(True for _ in _places(word, source, ()))


def _weight_in(source: _Source, word: Word) -> float:
    return max((source.words[at].weight for at in _places(word, source, ())), default=0.0)


def _unsaid(line: Sequence[Word], sources: Sequence[_Source]) -> list[int]:
    """The words that are nobody's, where they are many.

    Numbers are looked at elsewhere; two characters that a voucher has, if not together, are another form of a word.
    """
    letters = set[str]().union(*(source.text for source in sources))
    unsaid = {
        at
        for at, word in enumerate(line)
        if not (
            any(_has(source, word) for source in sources)
            or word.text.isdecimal()
            or (word.text >= "\u0e00" and letters.issuperset(word.text))
        )
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
    words = wording(text)
    return _Source(text, words, _places_of(words), entry)


def _places_of(words: Sequence[Word]) -> Mapping[str, tuple[int, ...]]:
    places = defaultdict[str, tuple[int, ...]](tuple)
    for at, word in enumerate(words):
        if word.meaning:
            places[key_of(word.text)] += (at,)
    return dict(places)


@lru_cache(maxsize=1_024)
def _sentences(source: _Source) -> tuple[_Source, ...]:
    """The sentences of a text by themselves."""
    groups = [tuple(group) for _, group in groupby(source.words, key=lambda word: word.sentence)]
    return tuple(replace(source, words=words, places=_places_of(words)) for words in groups)


def _nearest(line: Sequence[Word], sources: Sequence[_Source]) -> list[_Source]:
    """Those that have most of the words of a line, and of each word the one that has most of the others too."""
    weights = {key_of(word.text): word.weight for word in line if word.meaning}
    shares = [(sum(weight for key, weight in weights.items() if key in one.places), one) for one in sources]
    ranked = [one for share, one in sorted(shares, key=lambda pair: -pair[0]) if share]
    of_words = (next((one for one in ranked if key in one.places), None) for key in weights)
    return list(dict.fromkeys((*ranked[:_MOST_VOICES], *(one for one in of_words if one))))


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
            entry = source.entry[0 if cheapest.source == _NOWHERE else 1 if opens else 2]
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
