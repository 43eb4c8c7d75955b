"""Felt: the events (`Feeling`) that a text tells of, and what was felt since the last dream.

A small lexicon is matched clause by clause: "this does not work" is an error, "no errors" is nothing, "fixed the bug"
is a reward, and a question, a condition or a plan is no event. Missing one only costs a nuance of the mood.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from state.signals.hormones import BASELINES, RAISES, Feeling, Hormone, Hormones
from state.text.languages.loader import alternatives, phrases, words
from state.text.words import search_form

_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\b\w{1,20}://\S+|(?<!\S)\S{1,120}\.(?:py|js|ts|go|rs|md|txt|log|json|ya?ml)\b",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_BEFORE, _BEHIND = 5, 3  # words around a phrase in which a negation applies to it
_NEAR = 240  # characters around a phrase in which a condition applies to it
# These events must have happened; thanks and haste count in questions too.
_HAPPENED = frozenset({Feeling.REWARD, Feeling.ERROR, Feeling.ACHIEVEMENT})
_RESTING = dict(zip(Hormone, BASELINES, strict=True))


@dataclass(frozen=True, slots=True)
class Felt:
    """The events since the last dream, (feeling, cause), the latest last; and the peak level of each hormone."""

    events: tuple[tuple[Feeling, str], ...]
    height: Hormones

    def weight(self, text: str) -> float:
        """Return how much a text counts now, from 1 to 2: more if it is about what was felt most."""
        if not self.events:
            return 1.0
        raised = {
            hormone
            for feeling in feelings_in(text)
            for hormone, rise in zip(Hormone, RAISES[feeling], strict=True)
            if rise
        }
        return 1.0 + max((max(0.0, self.height.level(one) - _RESTING[one]) for one in raised), default=0.0)


def feelings_in(text: str) -> tuple[Feeling, ...]:
    """Return the events that a text tells of, each once, in the order of `Feeling`; code is ignored."""
    rows = "\n".join(search_form(row) for row in _CODE.sub(" ", text).splitlines())
    found = {feeling for clause in _clause_end().split(rows) for feeling in _felt_in(clause)}
    return tuple(feeling for feeling in Feeling if feeling in found)


def _felt_in(clause: str) -> Iterator[Feeling]:
    asked, clause = clause.rstrip().endswith(("?", "？")), _spelt_out(clause)
    is_unreal = bool(_unspaced_unreal().search(clause))
    for feeling in Feeling:
        for told in phrases(feeling.value).finditer(clause):
            before, behind = _around(clause, told)
            is_told = not _denied(before, behind) and not (feeling is Feeling.ERROR and _mended(before, behind))
            if is_told and not (feeling in _HAPPENED and (asked or is_unreal or _is_planned(before))):
                yield feeling
                break
    for told in phrases("denied").finditer(clause):
        before, behind = _around(clause, told)
        is_so = words("unreal").isdisjoint(before) and not asked and before[:1] not in _ORDERS
        if is_so and _denied(before, behind):
            yield Feeling.ERROR
            break


_ORDERS = (["do"], ["never"], ["please"], ["bitte"])


def _around(clause: str, told: re.Match[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after a phrase, within _NEAR characters: a clause may be megabytes long."""
    near = clause[max(0, told.start() - _NEAR) : told.start()]
    return _WORD.findall(near), _WORD.findall(clause[told.end() : told.end() + _NEAR])


def _denied(before: list[str], behind: list[str]) -> bool:
    is_before = not words("negators").isdisjoint(before[-_BEFORE:])
    return is_before or not words("after").isdisjoint(behind[:_BEHIND])


def _mended(before: list[str], behind: list[str]) -> bool:
    return not words("mended").isdisjoint((*before[-_BEFORE:], *behind[:_BEHIND]))


def _is_planned(before: list[str]) -> bool:
    """Return whether the words before say that it is a condition or a plan."""
    is_planned = before[-1:] == ["to"] or before[-2:] == ["to", "be"]
    return is_planned or not words("unreal").isdisjoint(before)


def _spelt_out(clause: str) -> str:
    clause = clause.replace("’", "'").replace("can't", "can not").replace("won't", "will not")
    return re.sub(r"(?<=[a-z])n't\b", " not", clause).replace("qu'", "").replace("n'", "ne ")


@cache
def _clause_end() -> re.Pattern[str]:
    parting = "|".join(sorted(words("but") | words("scope_ends")))
    return re.compile(
        r"(?<![.!;:\n。！；：，,])[.!;:\n。！；：,，]+(?:\s+|$)|(?<=[。！；：，])|(?<=[?？])\s*|"
        rf"(?<!\s)\s+(?:{parting})\s+|\s[–—-]\s"
    )


@cache
def _unspaced_unreal() -> re.Pattern[str]:
    return re.compile(alternatives("unreal")[1])
