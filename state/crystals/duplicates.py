"""Duplicates: whether two crystals are one memory, which one is shown, and what it inherits from the other.

Two crystals of one speaker are one memory if their texts differ only in case, white space and invisible characters
(`crystal.folded_digest`).
Nothing is lost by showing only one: neither text is changed or deleted, and a query with the duplicate's own words
still finds it. The more trusted one stands for both, and a less trusted one never becomes a parent: otherwise a page
could lower the weight of the owner's words by repeating them, or borrow their weight.
"""

from collections.abc import Collection
from dataclasses import replace

from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.text.words import normalise
from state.trust import Trust

# Origins whose crystals can be duplicates of each other; results of dreams only of each other. Lines evicted from
# MEMORY.md and the text from before it never are: something may lead to them.
_SAID = frozenset((Origin.SCRATCH, Origin.SESSION, Origin.WORKING))


def are_one_memory(one: Crystal, other: Crystal) -> bool:
    """Return whether two crystals in which one speaker says the same may be shown as one, by where they come from."""
    return {one.origin, other.origin} <= _SAID or one.origin is other.origin is Origin.DREAM


def canonical(one: Crystal, other: Crystal, kept: Collection[str]) -> tuple[Crystal, Crystal] | None:
    """Return (shown, hidden) of two crystals that are one memory; None if neither may be hidden.

    A crystal that is frozen, or whose id is in `kept`, is never hidden. Otherwise the more trusted one is shown, then
    the more important, then the older one.
    """

    def is_kept(crystal: Crystal) -> bool:
        return crystal.id in kept or crystal.lifecycle is Lifecycle.FROZEN

    def weakness(crystal: Crystal) -> tuple[float, ...]:
        return -crystal.trust.rank, -crystal.importance, crystal.created_at.timestamp(), int(crystal.id, 16)

    stays, leaves = sorted((one, other), key=lambda crystal: (not is_kept(crystal), *weakness(crystal)))
    return None if is_kept(leaves) or leaves.trust.rank > stays.trust.rank else (stays, leaves)


def with_duplicate(stays: Crystal, leaves: Crystal) -> Crystal:
    """Return the shown crystal with what it inherits from its duplicate.

    From one of the same trust: a parent, the higher importance, the accesses, the later use. From a less trusted one
    of at least an agent (the agent's echo of its owner): the same without the parent, since it is not derived from
    it. From tools and the web: nothing.
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
    """Return whether the query contains the text word for word."""
    return normalise(text) in normalise(query)
