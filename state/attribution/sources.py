"""Sources: which words of a new line are a stranger's, whatever the line cites.

The cheapest reading of a line (state/attribution/passages.py) by vouchers alone, texts of the agent or the owner, is
compared with the cheapest one that may use strangers' texts too: where a stranger explains a passage better, it is
his. So the wording of one voucher counts, its order, its denials and what it only reports, not a bag of words that
many vouchers have together. Words that nobody has said are the least trusted stranger's: they may be a translation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from state.attribution.dispute import disputed, vouched_line
from state.attribution.forms import key_of
from state.attribution.passages import Entry, Source, Step, nearest, reading, sentences, source_of
from state.attribution.wording import CONTENT, NOT, Word, wording
from state.text.remembered import remembered
from state.text.words import normalise
from state.trust import Trust, least_trust

_VOUCHED = Entry(0.0, 0.3, 0.8)
_STRANGE = Entry(0.5, 0.6, 0.9)
_CITED = Entry(0.05, 0.1, 0.2)
# So much cheaper is a reading with strangers, at least, in which a passage is a stranger's; or whole clauses are.
_MARGIN, _CLAUSE_MARGIN = 0.4, 0.1
# A text of whose words so much is somebody's, repeats him.
_REPEATS = 0.75
# Nobody's is a clause of whose words so many, and such a share, no voucher has; or so many in a row.
_UNSAID, _UNSAID_SHARE, _UNSAID_ROW = 2.0, 0.7, 3.0
# Where it denies what they affirm, a smaller share is enough.
_DENIED_SHARE = 0.45
# Who explains less of a line than this has no part in it.
_PART = 0.34
# A word that says something.
_PHRASE = 0.5
_SHOWN = 80

Line = Sequence[Word]


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


def foreign(text: str, vouchers: Sequence[str], strangers: Sequence[Voice]) -> Foreign | None:
    """What in this text is not the vouchers' although strangers are about; None when nothing is."""
    if not strangers or any(normalise(text) == normalise(one) for one in vouchers):
        return None
    line, least = wording(text), least_trust([one.trust for one in strangers])
    own = nearest(line, (source_of(one, _VOUCHED) for one in dict.fromkeys(vouchers)))
    if not own:
        return Foreign(text[:_SHOWN], least, all_of_it=True)
    voices: dict[Source, Voice] = {}
    for one in sorted(
        strangers, key=lambda one: one.trust.rank
    ):  # of two who say the same the less trusted one counts
        voices.setdefault(source_of(one.text, _CITED if one.cited else _STRANGE), one)
    alone = reading(line, own)
    better = _better_said(line, alone, own, voices) or _repeats_sentence(line, alone, own, voices)
    if better is not None:
        return better
    unsaid = _unsaid(line, len(_heading(text)), own, cited=any(one.cited for one in strangers))
    if unsaid:
        return _found(line, unsaid, alone, len(own), least)
    return _disputed(line, alone, own, voices)


def repeated(text: str, strangers: Sequence[Voice]) -> Trust | None:
    """The least trust of those whose words most of a text is; None when it is said in other words."""
    line = wording(text)
    voices = {source_of(one.text, _STRANGE): one for one in strangers}
    sources = nearest(line, voices)
    theirs = [(word.weight, step) for word, step in zip(line, reading(line, sources), strict=True) if step.explained]
    if not theirs or sum(weight for weight, _ in theirs) < _REPEATS * sum(word.weight for word in line):
        return None
    return least_trust([voices[sources[step.source]].trust for _, step in theirs])


def _found(line: Line, at: Sequence[int], steps: Sequence[Step], own: int, trust: Trust) -> Foreign:
    words = " ".join(line[one].text for one in at)
    pairs = [(word, step) for word, step in zip(line, steps, strict=True) if word.meaning]
    vouched = sum(word.weight for word, step in pairs if step.fits and step.source < own)
    all_of_it = vouched < _PART * sum(word.weight for word, _ in pairs)
    return Foreign(words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…", trust, all_of_it)


# A stranger says it better, or disputes it


def _better_said(
    line: Line, alone: Sequence[Step], own: Sequence[Source], voices: dict[Source, Voice]
) -> Foreign | None:
    """The passages that strangers explain better than the vouchers do."""
    strange = nearest(line, voices)
    both = reading(line, [*own, *strange])
    theirs = [at for at, step in enumerate(both) if step.source >= len(own) and step.explained and line[at].meaning]
    if all(line[at].text == NOT for at in theirs):
        return None
    speakers = [voices[strange[both[at].source - len(own)]] for at in theirs]
    surely = any(one.cited for one in speakers) or _whole_clauses(line, theirs)
    gain = sum(step.cost for step in alone) - sum(step.cost for step in both)
    if gain < (_CLAUSE_MARGIN if surely else _MARGIN):
        return None
    return _found(line, theirs, both, len(own), least_trust([one.trust for one in speakers]))


def _disputed(
    line: Line, alone: Sequence[Step], own: Sequence[Source], voices: dict[Source, Voice]
) -> Foreign | None:
    """The words that one of the strangers disputes."""
    keys, by_own = {key_of(word.text) for word in line if word.meaning}, vouched_line(line, alone, own)
    for source, voice in voices.items():
        near = (said for said in sentences(source) if not keys.isdisjoint(said.places))
        found = next(filter(None, (disputed(by_own, said) for said in near)), None)
        if found:
            return _found(line, found, alone, len(own), voice.trust)
    return None


def _whole_clauses(line: Line, theirs: Sequence[int]) -> bool:
    """Whether these are all the words of the clauses that they stand in, and those say something."""
    clauses = {line[at].clause for at in theirs}
    there = [at for at, word in enumerate(line) if word.clause in clauses and word.meaning]
    return there == list(theirs) and sum(line[at].weight for at in there) >= _UNSAID


def _repeats_sentence(
    line: Line, alone: Sequence[Step], own: Sequence[Source], voices: dict[Source, Voice]
) -> Foreign | None:
    """A phrase that is all of a stranger's sentence and stands in no voucher, however little it weighs."""
    for source, voice in voices.items():
        sentence = _whole_sentence(line, own, source)
        if sentence:
            return _found(line, sentence, alone, len(own), voice.trust)
    return None


def _whole_sentence(line: Line, own: Sequence[Source], stranger: Source) -> list[int]:
    said = _spoken(stranger)
    for _, group in groupby(range(len(line)), key=lambda at: line[at].phrase):
        at = list(group)
        texts = tuple(line[one].text for one in at)
        if texts not in said or not any(line[one].weight >= _PHRASE for one in at):
            continue
        alone = len(texts) == 1 and any(source.where(line[at[0]]) for source in own)
        if not alone and not any(_stands_in(texts, source) for source in own):
            return at
    return []


@remembered(300_000, lambda source: len(source.text))
def _spoken(source: Source) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(word.text for word in one.words) for one in sentences(source))


def _stands_in(texts: tuple[str, ...], source: Source) -> bool:
    words = [word.text for word in source.words]
    return any(tuple(words[at : at + len(texts)]) == texts for at in range(len(words) - len(texts) + 1))


# Nobody has said it


def _heading(text: str) -> Line:
    """A word or two before a colon, by which a line that gathers several things is called."""
    head = wording(text.partition(":")[0]) if ":" in text else ()
    weight = sum(word.weight for word in head if word.meaning)
    return head if weight <= _UNSAID and len({word.clause for word in head}) == 1 else ()


def _unsaid(line: Line, start: int, own: Sequence[Source], *, cited: bool) -> list[int]:
    """The words from `start` on that no voucher has, where they are many; each, when a stranger is cited.

    Numbers are looked at elsewhere; two characters that a voucher has, if not together, are another form of a word.
    """
    letters = set[str]().union(*(source.text for source in own))
    words = [at for at in range(start, len(line)) if line[at].meaning]
    lacking = [at for at in words if not _is_said(line[at], own, letters)]
    if cited:
        return lacking if sum(line[at].weight for at in lacking) >= CONTENT else []
    found: list[int] = []
    for _, group in groupby(words, key=lambda at: line[at].clause):
        clause = list(group)
        here = [at for at in clause if at in lacking]
        lack = sum(line[at].weight for at in here)
        share = _DENIED_SHARE if _is_turned_down([line[at] for at in clause], own) else _UNSAID_SHARE
        if lack >= _UNSAID and lack >= share * sum(line[at].weight for at in clause):
            found += here
    for lacks, group in groupby(words, key=lambda at: at in lacking):
        row = list(group)
        if lacks and sum(line[at].weight for at in row) >= _UNSAID_ROW:
            found += row
    return sorted(set(found))


def _is_turned_down(clause: Line, own: Sequence[Source]) -> bool:
    """Whether a clause denies what the vouchers only affirm."""
    there = [source.words[at].denied for word in clause if word.denied for source in own for at in source.where(word)]
    return bool(there) and not any(there)


def _is_said(word: Word, own: Sequence[Source], letters: set[str]) -> bool:
    if word.text.isdecimal() or any(source.where(word) for source in own):
        return True
    return word.text >= "\u0e00" and letters.issuperset(word.text)
