"""The gallery of bad models: kinds of answers that a dream must survive, each a script for the scripted model.

A kind is called with the request and the number of the call, reads the prompt as a model would, and answers badly.
Its docstring says in a line what it does.
"""

from collections.abc import Callable
from typing import Any

from tests.support.gallery import documents, erasing, failing, lying, shapes, unreadable
from tests.support.scripted_model import Reply

Kind = Callable[[dict[str, Any], int], Reply | str | dict[str, Any]]

GROUPS: dict[str, tuple[Kind, ...]] = {
    "nothing to read": unreadable.KINDS,
    "nearly JSON": shapes.KINDS,
    "whole documents": documents.KINDS,
    "taking away": erasing.KINDS,
    "saying what nobody said": lying.KINDS,
    "on the way": failing.KINDS,
}
KINDS: tuple[Kind, ...] = tuple(kind for kinds in GROUPS.values() for kind in kinds)


def name_of(kind: Kind) -> str:
    """What the kind is called in reports."""
    return str(getattr(kind, "__name__", kind)).replace("_", " ")
