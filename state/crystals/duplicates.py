"""Duplicates: whether two crystals are one memory, which one is shown, and what it takes over from the other.

Two crystals of one speaker are one memory when their texts are equal but for case, white space and invisible signs.
Nothing is lost when only one of them is shown: neither text is changed or deleted, and the duplicate is still found
where its own words are asked for. Whoever is trusted more stands for both, and what is trusted less becomes no
parent: else a page could take the weight from the owner's word by repeating it, or lend itself that weight.
"""

from collections.abc import Collection
from dataclasses import replace

from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.text.words import normalise
from state.trust import Trust

# What was said and noted; and among themselves, what dreams have found. Lines that left MEMORY.md, and the text from
# before it, stay what they are: something may lead to them.
_SAID = frozenset((Origin.SCRATCH, Origin.SESSION, Origin.WORKING))


def same_memory(one: Crystal, other: Crystal) -> bool:
    """Return whether one speaker says the same in both crystals, in the same words. Symmetric."""
    is_same_sort = {one.origin, other.origin} <= _SAID or one.origin is other.origin is Origin.DREAM
    is_same_speaker = one.speaker.casefold() == other.speaker.casefold()
    is_equal = one.id != other.id and normalise(one.text) == normalise(other.text)
    return is_same_sort and is_same_speaker and is_equal


def canonical(one: Crystal, other: Crystal, kept: Collection[str]) -> tuple[Crystal, Crystal] | None:
    """Return the visible one and the hidden one of two crystals that are one memory; None when neither may be hidden.

    What is in `kept` (ids) or frozen does not. Else the one that is trusted more stays, then the more important one,
    then the elder.
    """

    def is_kept(crystal: Crystal) -> bool:
        return crystal.id in kept or crystal.lifecycle is Lifecycle.FROZEN

    def weakness(crystal: Crystal) -> tuple[float, ...]:
        return -crystal.trust.rank, -crystal.importance, crystal.created_at.timestamp(), int(crystal.id, 16)

    stays, leaves = sorted((one, other), key=lambda crystal: (not is_kept(crystal), *weakness(crystal)))
    return None if is_kept(leaves) or leaves.trust.rank > stays.trust.rank else (stays, leaves)


def with_duplicate(stays: Crystal, leaves: Crystal) -> Crystal:
    """Return the visible crystal with what it takes over from its duplicate.

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
    """Return whether the query holds the text word for word."""
    return normalise(text) in normalise(query)
