"""Event lexicon: the emotional events (`Feeling`) that a text tells of, by word lists that mind negation.

Works clause by clause. "This does not work" is an error, "no errors" is nothing, "fixed the bug" is a reward, and a
question, a condition or a plan is no event. Precision before recall: one that is missed costs a nuance of the mood.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from state.signals.hormones import Feeling
from state.text.languages.loader import table
from state.text.languages.tables import Feelings, Groups, Phrases
from state.text.words import search_form

_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\b\w{1,20}://\S+|(?<!\S)\S{1,120}\.(?:py|js|ts|go|rs|md|txt|log|json|ya?ml)\b",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_REACH = 5  # words before a cue in which a negation, and before or after it in which a repair, is meant for it
_REACH_AFTER = 3

# A reward, an error or an achievement has to have happened; thanks and haste may stand in a question.
_EVENTS = frozenset({Feeling.REWARD, Feeling.ERROR, Feeling.ACHIEVEMENT})


@dataclass(frozen=True, slots=True)
class _Cue:
    words: tuple[str, ...]
    not_before: frozenset[str]
    feeling: Feeling


def feelings_in(text: str) -> tuple[Feeling, ...]:
    """The events that a text tells of, at most one of each kind, in the order of `Feeling`.

    Code spans, addresses and file names are not read.
    """
    rows = "\n".join(search_form(row) for row in _CODE.sub(" ", text).splitlines())
    found = {feeling for clause in _clause().split(rows) for feeling in _felt_in(clause)}
    return tuple(feeling for feeling in Feeling if feeling in found)


def _felt_in(clause: str) -> Iterator[Feeling]:
    if not _WORD.search(clause):
        return
    asked = clause.rstrip().endswith(("?", "？"))
    spoken = _WORD.findall(_spelt_out(clause))
    condition = next((at for at, word in enumerate(spoken) if word in _words("conditions")), len(spoken))
    for at in range(len(spoken)):
        for cue in _cues().get(spoken[at], ()):
            said = _stands(cue, spoken, at) and not _negated(spoken, at, len(cue.words))
            if said and (
                cue.feeling not in _EVENTS
                or not (asked or condition < at or _planned(spoken, at) or _mended(cue, spoken, at))
            ):
                yield cue.feeling
        for cue in _denied_cues().get(spoken[at], ()):
            denied = _stands(cue, spoken, at) and _negated(spoken, at, 1)
            if denied and not asked and not condition < at and not _ordered(spoken):
                yield cue.feeling
    if not clause.isascii() and not asked and not _unreal().search(clause):
        yield from (feeling for feeling, pattern in _unspaced() if pattern.search(clause))


def _spelt_out(clause: str) -> str:
    clause = clause.replace("’", "'").replace("can't", "can not").replace("won't", "will not")
    return re.sub(r"(?<=[a-z])n't\b", " not", clause).replace("not only", "").replace("qu'", "").replace("n'", "ne ")


def _stands(cue: _Cue, spoken: Sequence[str], at: int) -> bool:
    end = at + len(cue.words)
    following = spoken[end] if end < len(spoken) else ""
    return tuple(spoken[at:end]) == cue.words and following not in cue.not_before


def _negated(spoken: Sequence[str], at: int, length: int) -> bool:
    before = list(spoken[max(0, at - _REACH) : at])
    for i in range(len(before) - 1, -1, -1):
        if before[i] in _words("scope_ends"):
            before = before[i + 1 :]
            break
    after = spoken[at + length : at + length + _REACH_AFTER]
    return bool(_words("negators") & set(before) or _words("after") & set(after))


def _planned(spoken: Sequence[str], at: int) -> bool:
    """A plan, or "to be fixed"."""
    before = spoken[max(0, at - _REACH + 1) : at]
    return bool(_words("plans") & set(before)) or before[-1:] == ["to"] or before[-2:] == ["to", "be"]


def _mended(cue: _Cue, spoken: Sequence[str], at: int) -> bool:
    if cue.feeling is not Feeling.ERROR:
        return spoken[at] == "fixed" and spoken[at - 1 : at] == ["a"]  # "a fixed schedule" mends nothing
    end = at + len(cue.words)
    near = (*spoken[max(0, at - _REACH) : at], *spoken[end : end + _REACH_AFTER])
    return bool(_words("mended") & set(near)) and not _words("negators") & set(near)


def _ordered(spoken: Sequence[str]) -> bool:
    return spoken[0] in _words("imperatives")


@cache
def _clause() -> re.Pattern[str]:
    """Where a clause ends."""
    return re.compile(
        r"(?:(?<![.!;:\n。！；：，,])[.!;:\n。！；：,，]+(?:\s+|$)|(?<=[。！；：，])|(?<=[?？])\s*|"
        rf"(?<!\s)\s+(?:{'|'.join(table(Feelings).but)})\s+|\s[–—-]\s)"
    )


@cache
def _unreal() -> re.Pattern[str]:
    return re.compile(table(Feelings).unreal.pattern)


@cache
def _cues() -> dict[str, tuple[_Cue, ...]]:
    known = table(Feelings)
    told = [(phrase, feeling) for feeling in Feeling for phrase in _row(feeling).spaced]
    return _by_first_word(told, known.followers)


@cache
def _denied_cues() -> dict[str, tuple[_Cue, ...]]:
    known = table(Feelings)
    return _by_first_word([(phrase, Feeling.ERROR) for phrase in known.denied.spaced], known.denied_followers)


def _by_first_word(told: Iterable[tuple[str, Feeling]], followers: Groups) -> dict[str, tuple[_Cue, ...]]:
    not_before = {cue: frozenset(words) for cue, *words in followers}
    cues: dict[str, tuple[_Cue, ...]] = {}
    for phrase, feeling in told:
        cue = _Cue(tuple(phrase.split()), not_before.get(phrase, frozenset()), feeling)
        cues[cue.words[0]] = (*cues.get(cue.words[0], ()), cue)
    return cues


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(attrgetter(name)(table(Feelings)))


@cache
def _unspaced() -> tuple[tuple[Feeling, re.Pattern[str]], ...]:
    return tuple((feeling, re.compile("|".join(_row(feeling).unspaced) or "(?!)")) for feeling in Feeling)


def _row(feeling: Feeling) -> Phrases:
    """What tells of this event; nothing tells of some."""
    return getattr(table(Feelings), feeling.value, Phrases())
