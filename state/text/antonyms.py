"""Antonyms: the words by which a search for contradictions tells negations, relations, properties and opposites.

They are of all languages together. A word that is missing costs a contradiction that is not seen, never a truth.
"""

import re
from collections.abc import Iterable
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


def are_opposites(one: str, other: str) -> bool:
    """Whether of these two stemmed words one denies the other."""
    return frozenset((one, other)) in _opposites()


def are_alternatives(one: str, other: str) -> bool:
    """Whether of these two stemmed words only one can hold of a subject."""
    return any(one in group and other in group for group in _alternatives())


@cache
def _opposites() -> frozenset[frozenset[str]]:
    return frozenset(_stemmed(table(Contrasts).opposites))


@cache
def _alternatives() -> tuple[frozenset[str], ...]:
    return _stemmed(table(Contrasts).alternatives + table(Contrasts).calendar)


def _stemmed(groups: Iterable[Words]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(map(stem, group)) for group in groups)
