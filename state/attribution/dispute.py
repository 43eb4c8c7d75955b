"""Dispute: finds what a stranger's text and a line share and the agent's own texts say otherwise.

A stranger disputes no line by using its words: he must have so much of what he says, or of what the line says, in
common with it that it may well be his, and the vouchers must say something else.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from state.attribution.passages import Source, Step
from state.attribution.wording import CONTENT, NAME, NOT, Word, unprefixed
from state.text.remembered import remembered

# Who has so much of the words of a part that the vouchers say otherwise by so much, disputes it.
_RIVAL, _OTHERWISE = 0.75, 0.9
# Of what vouchers only report that much is enough: of the part, or of what the stranger says.
_REPORTED_RIVAL, _REPORTED_SHARE = 0.3, 0.6
# A voucher only mentions that of whose sentence so much is left out; or a word, where a stranger says just that.
_MENTIONED, _SAME = 0.3, 0.9
# So much is more than a word or two.
_CLAIM = 2.0
# Who has a new word speaks of the line when so much of what he says is in it.
_SUBJECT = 0.25
_TOPIC = 0.5

Line = Sequence[Word]


@dataclass(frozen=True, slots=True)
class VouchedLine:
    """A line as its vouchers tell it: its cheapest reading by them, and what is exchanged in it."""

    line: Line
    steps: Sequence[Step]
    own: Sequence[Source]
    crossed: Sequence[Sequence[int]]

    def weight(self, at: Iterable[int]) -> float:
        """What these words of the line weigh."""
        return sum(self.line[one].weight for one in at)

    def is_reported(self, at: int) -> bool:
        """Whether a voucher has a word only as what somebody else says, and the line does not say so."""
        step = self.steps[at]
        return step.explained and self.own[step.source].words[step.at].only_reports(self.line[at])


def vouched_line(line: Line, steps: Sequence[Step], own: Sequence[Source]) -> VouchedLine:
    """The line with its reading by its vouchers, for one stranger's sentence after the other."""
    return VouchedLine(line, steps, own, [crossed for one in own if (crossed := _crossed(line, one))])


def disputed(it: VouchedLine, stranger: Source) -> list[int]:
    """The words of which a stranger's sentence speaks too, and which the vouchers do not say like that; mostly none.

    That is a word that no voucher has among others that the stranger has; a part in which the vouchers are turned
    around, or of whose sentence they say more, when the stranger has most of it; what they only report; partners that
    are exchanged.
    """
    theirs = [at for at, word in enumerate(it.line) if word.meaning and word.text != NOT and _has(stranger, word)]
    new = _new(it, theirs, stranger)
    if new:
        return new
    for part in _parts(it.line):
        if _is_otherwise(it, part, [at for at in part if at in theirs], stranger):
            return part
    reported = [at for at in theirs if it.is_reported(at)]
    if it.weight(reported) >= max(CONTENT, _REPORTED_SHARE * _sum(stranger)):
        return reported
    return next((list(crossed) for crossed in it.crossed if not set(crossed).isdisjoint(theirs)), [])


def _has(source: Source, word: Word) -> bool:
    """Whether it has a word, or that which the word denies: one may say "unproofread" for "without proofreading"."""
    return bool(source.where(word)) or any(source.where(bare) for bare in unprefixed(word))


def _new(it: VouchedLine, theirs: Sequence[int], stranger: Source) -> list[int]:
    """The words that the stranger has and no voucher, when one of them is a name or there are others in common."""
    new = [at for at in theirs if not it.steps[at].explained and not _is_denied(it.line[at], it.own)]
    if any(_is_name(it.line[at], stranger) for at in new):
        return new
    if not new:
        return _novel(it, theirs, stranger)
    clauses = {it.line[at].clause for at in new}
    there = [at for at in theirs if it.line[at].clause in clauses]
    enough = it.weight(there) >= _SUBJECT * _sum(stranger)
    return new if enough and it.weight(new) >= CONTENT and len(new) < len(there) else []


def _novel(it: VouchedLine, theirs: Sequence[int], stranger: Source) -> list[int]:
    """The words that nobody has in a clause that has the subject of which the stranger speaks."""
    for part in list(_parts(it.line))[1:]:
        shared = [at for at in part if at in theirs]
        novel = [at for at in part if not it.steps[at].explained and not it.line[at].text.isdecimal()]
        if it.weight(novel) >= CONTENT and it.weight(shared) >= _TOPIC * _sum(stranger):
            return novel
    return []


def _is_denied(word: Word, own: Sequence[Source]) -> bool:
    """Whether a voucher denies in two words what this one does by how it begins: "not verified", "unverified"."""
    return any(one.words[at].denied for bare in unprefixed(word) for one in own for at in one.where(bare))


def _is_name(word: Word, stranger: Source) -> bool:
    weights = [word.weight, *(stranger.words[at].weight for at in stranger.where(word))]
    return max(weights) >= NAME and not word.text.isdecimal()


def _parts(line: Line) -> Iterator[list[int]]:
    """The words of all of a line, and those of each of its clauses."""
    words = [at for at, word in enumerate(line) if word.meaning]
    yield words
    for _, group in groupby(words, key=lambda at: line[at].clause):
        yield list(group)


def _is_otherwise(it: VouchedLine, part: Sequence[int], shared: Sequence[int], stranger: Source) -> bool:
    """Whether the vouchers say a part otherwise, of which a stranger has enough for it to be his."""
    weight, common = it.weight(part), it.weight(shared)
    if common < _REPORTED_RIVAL * min(weight, _sum(stranger)):
        return False
    explained = [at for at in part if it.steps[at].explained]
    reported = bool(explained) and all(map(it.is_reported, explained))
    if weight >= _CLAIM and common >= (_REPORTED_RIVAL if reported else _RIVAL) * weight:
        otherwise = reported or sum(it.steps[at].cost for at in range(part[0], part[-1] + 1)) >= _OTHERWISE
        if otherwise or _is_mentioned(it, part, same=common >= _SAME * max(weight, _sum(stranger))):
            return True
    close = common >= _RIVAL * min(weight, _sum(stranger))
    return close and common >= _CLAIM and _is_turned(it, shared, stranger)


def _is_mentioned(it: VouchedLine, part: Sequence[int], *, same: bool) -> bool:
    """Whether the vouchers only speak of it: their sentences say a good deal more than the line does.

    `same`: a stranger says it word for word; then a word more is enough, such as one that calls it a rumour.
    """
    used = {(step.source, step.at) for step in it.steps if step.explained}
    here = [(it.steps[at].source, it.steps[at].at) for at in part if it.steps[at].explained]
    spoken_in = {(source, it.own[source].words[at].sentence) for source, at in here}
    whole = unused = 0.0
    for source, sentence in spoken_in:
        for at, word in enumerate(it.own[source].words):
            if word.meaning and word.sentence == sentence:
                whole += word.weight
                unused += word.weight if (source, at) not in used else 0.0
    return unused > _MENTIONED * whole or (same and unused >= CONTENT)


def _is_turned(it: VouchedLine, shared: Sequence[int], stranger: Source) -> bool:
    """Whether two words stand as in the stranger's sentence, and the other way around wherever a voucher has both."""
    for first, second in combinations(shared, 2):
        one, other = it.line[first], it.line[second]
        if not _in_order(stranger, one, other) or _in_order(stranger, other, one):
            continue
        both = [source for source in it.own if source.where(one) and source.where(other)]
        if both and not any(_in_order(source, one, other) for source in both):
            return True
    return False


def _in_order(source: Source, one: Word, other: Word) -> bool:
    """Whether a source has one word somewhere before the other."""
    return min(source.where(one), default=len(source.words)) < max(source.where(other), default=-1)


def _crossed(line: Line, own: Source) -> list[int]:
    """The words of two phrases each of which has a part of the same two phrases of a voucher: roles are exchanged."""
    drawn = defaultdict[int, set[int]](set)
    for word in line:
        phrases = {own.words[at].phrase for at in own.where(word)} if word.meaning else set()
        if len(phrases) == 1:  # a word of both tells nothing
            drawn[word.phrase] |= phrases
    for one, other in combinations(drawn, 2):
        if len(drawn[one] & drawn[other]) > 1:
            return [at for at, word in enumerate(line) if word.meaning and word.phrase in {one, other}]
    return []


@remembered(300_000, lambda source: len(source.text))
def _sum(source: Source) -> float:
    """What all words of a text weigh, but for what denies."""
    return sum(word.weight for word in source.words if word.meaning and word.text != NOT)
