"""Asking: which changes of MEMORY.md need a yes of its owner."""

from enum import StrEnum


class Ask(StrEnum):
    """The owner's rule: asked about lines that they wrote or pinned, or about every change of a line."""

    OWN = "own"
    ALL = "all"


class Heard(StrEnum):
    """What a dream does with notes an agent wrote after it had read a page or a tool's output."""

    MARK = "mark"
    ASK = "ask"
    LEAVE = "leave"
