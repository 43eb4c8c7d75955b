"""Ports: what a dream needs from outside, as protocols. `daemon/` implements them; tests may, too."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from state.crystals.crystal import Crystal
from state.dream import Dream


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model: messages in order, each a (role, text) pair.

    `schema` is the JSON schema that the answer should have.
    """

    messages: tuple[tuple[str, str], ...]
    schema: dict[str, Any] | None = None
    schema_name: str = "reply"


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer and its cost. `finish_reason` is "length" if the answer was cut off."""

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    usd: float
    finish_reason: str
    seconds: float
    estimated: bool


class Model(Protocol):
    """A language model."""

    name: str

    @property
    def context_window(self) -> int:
        """Return the size of the context window, in tokens."""
        ...

    def ask(self, request: Request) -> Answer:
        """Return one answer. Raise ModelError if there is none, CeilingError if a ceiling forbids the call."""
        ...


class Trial(Protocol):
    """A search over the stored crystals plus some hypothetical ones; nothing is written."""

    def first(self, keywords: str, limit: int) -> tuple[str, ...]:
        """Return the ids of the first `limit` crystals that memory_search would find."""
        ...

    def frequency(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return for each word the number of crystals that contain it."""
        ...


class Memory(Protocol):
    """The memory of one workspace."""

    def trial(self, crystals: Sequence[Crystal]) -> AbstractContextManager[Trial]:
        """Search as if these crystals were stored."""
        ...

    def alike(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the cosine of meaning of each text with each; nothing if there is no embedding model."""
        ...

    def commit(self, dream: Dream) -> Dream:
        """Commit the dream; return it as committed (merged with a human's edit, if there was one)."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything one dream uses from outside. `model` is None if no model is configured."""

    memory: Memory
    model: Model | None
    clock: Callable[[], datetime]
    on_failure: str = "keep"
