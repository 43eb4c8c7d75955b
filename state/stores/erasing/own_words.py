"""Own words: names of fields, kinds, ids and moments that dreamd itself writes into records; they are not erased.

A text may be such a word as well. Where it stands in a place of these, it is not the owner's text, and stays.
"""

import re
from enum import StrEnum

from state import dream, trust
from state.crystals import crystal
from state.document import document
from state.document import operations as update
from state.sessions import item
from state.sessions.policies import policy
from state.signals import curiosity, hormones
from state.stores.sessions import events

_KINDS: tuple[type[StrEnum], ...] = (
    crystal.Kind,
    crystal.Lifecycle,
    crystal.Origin,
    trust.Trust,
    curiosity.Cause,
    document.SectionName,
    dream.Kind,
    dream.Reason,
    dream.Decision,
    hormones.Feeling,
    hormones.Hormone,
    item.Priority,
    item.State,
    policy.Action,
    policy.Order,
    events.EventKind,
    update.Action,
    update.Fate,
)
_WORDS = frozenset(str(value) for kind in _KINDS for value in kind) | frozenset(
    (
        # what refuses, and how much
        *("bond drift", "bounds", "budget", "citation", "empty synthesis", "eviction runaway", "evidence", "genome"),
        *("human veto", "injection", "nothing taken in", "pinned", "pointer", "schema", "shape", "slow erosion"),
        *("truncation", "all refused", "approval"),
        *("operation", "section", "dream"),
        # who wrote a version, why, and what became of it
        *("extractive", "restore", "import", "hand", "approved", "rejected", "outdated", "waiting", "committed"),
        *("failed", "proposed", "skipped", "calm", "stop", "length", "auto", "manual"),
        # policies of sessions, and why an item left
        *("ttl", "budget", "hybrid", "hierarchical", "none", "full", "expired", "forgotten", "closed"),
    )
)
_ID = re.compile(r"[NCIGSETW]\d{1,3}|L\d{1,9}|[0-9a-f]{16,64}|\d{8}T\d{6,12}Z|\d{4}-\d\d-\d\dT[\d:.+Z-]+|purged-\d+|")


def is_own(value: str) -> bool:
    """Whether this is a word or an id of dreamd's, when it stands where such a one may stand."""
    return value in _WORDS or _ID.fullmatch(value) is not None
