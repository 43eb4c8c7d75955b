"""The gallery of bad models: kinds of answers that a dream must survive, each a script for the scripted model.

A kind is called with the request and the number of the call, reads the prompt as a model would, and answers badly.
Its docstring says in a line what it does.
"""

from tests.support.gallery import documents
from tests.support.gallery.kinds import Kind, name_of
from tests.support.gallery.operations import ERASING, LYING
from tests.support.gallery.replies import FAILING, NEARLY_JSON, UNREADABLE

KINDS: tuple[Kind, ...] = (*UNREADABLE, *NEARLY_JSON, *documents.KINDS, *ERASING, *LYING, *FAILING)

__all__ = ["FAILING", "KINDS", "Kind", "name_of"]
