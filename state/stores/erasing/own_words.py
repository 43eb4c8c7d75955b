"""Own words: kinds, ids and moments that dreamd itself writes into records; the search for what is left skips them.

A text may be such a word as well. Where it stands in a place of these, it is not the owner's text.
"""

import re
from enum import StrEnum
from functools import cache

_WORDS = frozenset(
    (
        # what refuses, and how much
        *("bond drift", "bounds", "budget", "citation", "empty synthesis", "eviction runaway", "evidence", "genome"),
        *("human veto", "injection", "nothing taken in", "pinned", "pointer", "schema", "shape", "slow erosion"),
        *("truncation", "all refused", "approval"),
        *("operation", "section", "dream"),
        # who wrote a version, why, and what became of it
        *("extractive", "restore", "import", "hand", "approved", "rejected", "outdated", "waiting", "committed"),
        *("failed", "skipped", "calm", "stop", "length", "auto", "manual"),
        # policies of sessions, and why an item left
        *("ttl", "budget", "hybrid", "hierarchical", "none", "full", "expired", "forgotten", "closed"),
    )
)
_ID = re.compile(r"[NCIGSETW]\d{1,3}|L\d{1,9}|[0-9a-f]{16,64}|\d{8}T\d{6,12}Z|\d{4}-\d\d-\d\dT[\d:.+Z-]+|purged-\d+|")


def is_own(value: str) -> bool:
    """Return whether this is a word or an id of dreamd's, when it stands where such a one may stand."""
    return value in _WORDS or value in _members() or _ID.fullmatch(value) is not None


@cache
def _members() -> frozenset[str]:
    """Return what the enumerations of state/ can say."""
    kinds = (kind for kind in StrEnum.__subclasses__() if kind.__module__.startswith("state."))
    return frozenset(str(member) for kind in kinds for member in kind)
