"""A corpus, written for this project: texts that try to turn an agent through its memory."""

from tests.support.poison.corpus import Poisoned, Trick, unique
from tests.support.poison.languages import FOREIGN
from tests.support.poison.orders import ORDERS
from tests.support.poison.structure import STRUCTURE

POISONED = unique((*STRUCTURE, *ORDERS, *FOREIGN))

__all__ = ["POISONED", "Poisoned", "Trick"]
