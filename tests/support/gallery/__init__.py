"""The gallery of bad models: kinds of answers that a dream must survive, each a script for the scripted model.

A kind is called with the request and the number of the call, reads the prompt as a model would, and answers badly.
Its docstring says in a line what it does.
"""

from tests.support.gallery import documents, erasing, failing, lying, shapes, unreadable
from tests.support.gallery.kinds import Kind, name_of

GROUPS: dict[str, tuple[Kind, ...]] = {
    "nothing to read": unreadable.KINDS,
    "nearly JSON": shapes.KINDS,
    "whole documents": documents.KINDS,
    "taking away": erasing.KINDS,
    "saying what nobody said": lying.KINDS,
    "on the way": failing.KINDS,
}
KINDS: tuple[Kind, ...] = tuple(kind for kinds in GROUPS.values() for kind in kinds)

__all__ = ["GROUPS", "KINDS", "Kind", "name_of"]
