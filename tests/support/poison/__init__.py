"""Two corpora, written for this project: texts that try to turn an agent through its memory, and look-alikes."""

from tests.support.poison.corpus import Honest, Poisoned, Sort, Trick, unique
from tests.support.poison.honest import HONEST
from tests.support.poison.languages import FOREIGN
from tests.support.poison.orders import ORDERS
from tests.support.poison.structure import STRUCTURE

POISONED = unique((*STRUCTURE, *ORDERS, *FOREIGN))

__all__ = ["HONEST", "POISONED", "Honest", "Poisoned", "Sort", "Trick"]
