"""Antonyms: the words by which a search for contradictions tells negations, relations, properties and opposites.

They are of all languages together. A word that is missing costs a contradiction that is not seen, never a truth.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from operator import attrgetter

from state.text.languages.loader import table
from state.text.languages.tables import Contrasts, Words
from state.text.words import UNSPACED, stem


@cache
def words(name: str) -> frozenset[str]:
    """One row of `Contrasts`, stemmed."""
    return frozenset(map(stem, attrgetter(name)(table(Contrasts))))


@cache
def calendar() -> frozenset[str]:
    """Names of days and months."""
    return frozenset().union(*_stemmed(table(Contrasts).calendar))


@cache
def unspaced_properties() -> Words:
    """Properties in languages without spaces: these are looked for inside a sentence."""
    return tuple(filter(re.compile(f"[{UNSPACED}]").match, table(Contrasts).properties))


def have_opposites(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether of these stemmed words one denies one of the others."""
    return _meet(_opposites(), some, others)


def have_alternatives(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether of one of these stemmed words and one of the others only one can hold of a subject."""
    return _meet(_alternatives(), some, others)


def _meet(groups: Mapping[str, frozenset[str]], some: Iterable[str], others: Iterable[str]) -> bool:
    there = frozenset(others)
    return any(not groups[word].isdisjoint(there) for word in some if word in groups)


@cache
def _opposites() -> Mapping[str, frozenset[str]]:
    """By each word those that deny it."""
    pairs = [group for group in _stemmed(table(Contrasts).opposites) if len(group) == 2]
    return _by_word((word, group - {word}) for group in pairs for word in group)


@cache
def _alternatives() -> Mapping[str, frozenset[str]]:
    """By each word those of its groups."""
    groups = _stemmed(table(Contrasts).alternatives + table(Contrasts).calendar)
    return _by_word((word, group) for group in groups for word in group)


def _by_word(found: Iterable[tuple[str, frozenset[str]]]) -> Mapping[str, frozenset[str]]:
    by_word: dict[str, frozenset[str]] = {}
    for word, others in found:
        by_word[word] = by_word.get(word, frozenset()) | others
    return by_word


def _stemmed(groups: Iterable[Words]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(map(stem, group)) for group in groups)
