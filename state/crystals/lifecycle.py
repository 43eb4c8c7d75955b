"""Lifecycle: the next stage of a crystal after an access or a dream, and when it fades.

    generated --access--> activated --dream, or 5 accesses--> consolidated --fades--> archived --access--> activated

`frozen` never moves. The stage as read now is `state.crystals.crystal.lifecycle`; a pass writes down what has faded
since the last one.
"""

from dataclasses import replace
from datetime import datetime

from state.crystals.crystal import Crystal, Lifecycle, faded_at, lifecycle

# Used so often, a crystal is settled without a dream.
SETTLED_ACCESSES = 5
# What a dream that takes it in makes of a crystal; others stay what they are.
DREAMT = {Lifecycle.GENERATED: Lifecycle.CONSOLIDATED, Lifecycle.ACTIVATED: Lifecycle.CONSOLIDATED}


def fades_at(crystal: Crystal) -> datetime | None:
    """The first moment at which the crystal is too weak, were it not frozen; None: never."""
    since = crystal.last_accessed_at or crystal.created_at
    return faded_at(crystal.importance, crystal.accesses, crystal.valence, since)


def accessed(crystal: Crystal, now: datetime) -> Crystal:
    """The crystal after one more access. A clock that was set back does not make it older than it is."""
    return replace(
        crystal,
        accesses=crystal.accesses + 1,
        last_accessed_at=max(crystal.last_accessed_at or now, now),
        lifecycle=_after_access(crystal, now),
    )


def _after_access(crystal: Crystal, now: datetime) -> Lifecycle:
    stage = lifecycle(crystal, now)
    if crystal.lifecycle is Lifecycle.ARCHIVED or stage is Lifecycle.ARCHIVED:
        return Lifecycle.ACTIVATED
    if stage in (Lifecycle.FROZEN, Lifecycle.CONSOLIDATED):
        return stage
    return Lifecycle.CONSOLIDATED if crystal.accesses + 1 >= SETTLED_ACCESSES else Lifecycle.ACTIVATED
