"""Two corpora, written for this project: texts that try to turn an agent through its memory, and look-alikes."""

from tests.poison.corpus import Honest, Poisoned, Sort, Trick, unique
from tests.poison.honest import HONEST
from tests.poison.languages import FOREIGN
from tests.poison.orders import ORDERS
from tests.poison.structure import STRUCTURE

POISONED = unique((*STRUCTURE, *ORDERS, *FOREIGN))

__all__ = ["HONEST", "POISONED", "Honest", "Poisoned", "Sort", "Trick"]
