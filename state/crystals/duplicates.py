"""Duplicates: whether two crystals are one memory, which one is shown, and what it takes over from the other.

Vectors find candidates; they are no proof: "room 14" and "room 15", "tea over coffee" and "coffee over tea", "was"
and "is" are nearer to each other than most honest repetitions (.95 to .99). So the words decide, in
`state.text.identity`. Nothing is lost when only one of them is shown: neither text is changed or deleted, and the
duplicate is still found where its own words are asked for.

Precision before recall: two crystals that say the same cost a place in a list, a merged truth is hard to find.
Trust is not lowered by an echo. Whoever is trusted more stands for both, and what is trusted less becomes no parent:
else a page could take the weight from the owner's word by repeating it, or lend itself that weight.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import cache, lru_cache

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.text.antonyms import calendar
from state.text.identity import SAME, compare, same_words
from state.text.languages.loader import table
from state.text.languages.lookup import Lookup
from state.text.languages.tables import Statements, Times
from state.text.words import content_terms, normalise, terms
from state.trust import Trust

NEAR_COSINE = 0.92
# What was said and noted; and among themselves, what dreams have found. Lines that left MEMORY.md, and the text from
# before it, stay what they are: something may lead to them.
_SAID = frozenset((Origin.SCRATCH, Origin.SESSION, Origin.WORKING))


def same_memory(one: Crystal, other: Crystal, cosine: float | None = None) -> bool:
    """Whether two crystals, whose vectors have this cosine, say one thing of one subject and one time. Symmetric."""
    if one.id == other.id or not _same_sort(one.origin, other.origin) or not comparable(one, other):
        return False
    timed = Kind.EPISODE in (one.kind, other.kind) or _relative().is_in(one.text, terms(one.text))
    if timed and one.created_at.date() != other.created_at.date():
        return False  # what happened on two days happened twice
    return says_the_same(one.text, other.text, cosine)


def comparable(one: Crystal, other: Crystal) -> bool:
    """Whether two crystals have one subject: the same headings, no "I" or "you" of different speakers. Symmetric."""
    same_speaker = one.speaker.casefold() == other.speaker.casefold()
    return _place(one) == _place(other) and (
        same_speaker or not (_names_persons(one.text) or _names_persons(other.text))
    )


def says_the_same(one: str, other: str, cosine: float | None = None) -> bool:
    """Whether either text may stand for the other. Symmetric, reflexive."""
    if normalise(one) == normalise(other) or same_words(one, other):
        return True
    return min(compare(one, other, cosine).same, compare(other, one, cosine).same) >= SAME


def canonical(one: Crystal, other: Crystal, kept: Collection[str]) -> tuple[Crystal, Crystal] | None:
    """(the visible one, the hidden one) of two crystals that are one memory; None when neither may be hidden.

    What is in `kept` (ids) or frozen does not. Else the one that is trusted more stays, then the more important one,
    then the elder.
    """
    stays, leaves = sorted((one, other), key=lambda crystal: (not _is_kept(crystal, kept), *_weakness(crystal)))
    if _is_kept(leaves, kept) or leaves.trust.rank > stays.trust.rank:
        return None
    return stays, leaves


def with_duplicate(stays: Crystal, leaves: Crystal) -> Crystal:
    """The visible crystal with what it takes over from its duplicate.

    From a twin of the same trust: a parent, the higher importance, the accesses, the later time of use. From one
    that is trusted less but vouched for (the agent's echo of its owner): the same, but no parent, for it is not
    derived from it. From tools and the web: nothing.
    """
    if leaves.trust is not stays.trust and leaves.trust.rank < Trust.AGENT.rank:
        return stays
    used = [at for at in (stays.last_accessed_at, leaves.last_accessed_at) if at]
    later = max([*used, leaves.created_at]) if leaves.created_at > stays.created_at else max(used, default=None)
    inherits = leaves.trust is stays.trust and leaves.id not in stays.parents
    return replace(
        stays,
        importance=max(stays.importance, leaves.importance),
        accesses=stays.accesses + leaves.accesses,
        last_accessed_at=later,
        parents=(*stays.parents, leaves.id) if inherits else stays.parents,
    )


def asked_word_for_word(query: str, text: str) -> bool:
    """Whether the query holds the text word for word."""
    return normalise(text) in normalise(query)


def _is_kept(crystal: Crystal, kept: Collection[str]) -> bool:
    return crystal.id in kept or crystal.lifecycle is Lifecycle.FROZEN


def _weakness(crystal: Crystal) -> tuple[float, ...]:
    return -crystal.trust.rank, -crystal.importance, crystal.created_at.timestamp(), int(crystal.id, 16)


def _same_sort(one: Origin, other: Origin) -> bool:
    return (one in _SAID and other in _SAID) or one is other is Origin.DREAM


def _place(crystal: Crystal) -> frozenset[str]:
    """Under which headings it stands: its context without speaker and date; tags are no place."""
    if crystal.origin is Origin.WORKING:
        return frozenset()
    context = content_terms(crystal.context) - content_terms(crystal.speaker) - calendar()
    return frozenset(term for term in context if not term.isdigit())


@cache
def _relative() -> Lookup:
    return Lookup(table(Times).relative)


@lru_cache(maxsize=512)  # each result of a search is held against the others
def _names_persons(text: str) -> bool:
    return _persons().is_in(text, terms(text))


@cache
def _persons() -> Lookup:
    groups = table(Statements).persons
    return Lookup(tuple(word for group in groups if group[0] in {"i", "you", "we"} for word in group))
