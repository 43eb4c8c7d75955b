"""Ports: what a dream needs of the world, as protocols. `daemon/` supplies them; tests may supply others."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from state.crystals.crystal import Crystal
from state.dream import Dream


@dataclass(frozen=True, slots=True)
class Request:
    """What is said to a model: messages in their order, each a role and a text.

    `schema` is the JSON schema of the wanted answer.
    """

    messages: tuple[tuple[str, str], ...]
    schema: dict[str, Any] | None = None
    schema_name: str = "reply"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered and what it cost. `finish_reason` is "length" when it was cut off."""

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
        """Tokens that it reads at once."""
        ...

    def ask(self, request: Request) -> Answer:
        """One answer. Raises ModelError when there is none, CeilingError when it may not be paid for."""
        ...


class Trial(Protocol):
    """The crystals as they would be with some more of them: nothing is written."""

    def expect(self, keywords: Sequence[str]) -> None:
        """Prepare searches for these keywords: what they have in common is done once."""
        ...

    def first(self, keywords: str, limit: int) -> tuple[str, ...]:
        """Ids of the first crystals that memory_search finds."""
        ...

    def frequency(self, words: Sequence[str]) -> Mapping[str, int]:
        """For each word the number of crystals that have it."""
        ...


class Memory(Protocol):
    """The memory of one workspace."""

    def trial(self, crystals: Sequence[Crystal]) -> AbstractContextManager[Trial]:
        """Search as if these crystals were stored."""
        ...

    def commit(self, dream: Dream) -> Dream:
        """Make the dream true; returns it as committed (merged with a human's edit, if there was one)."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The world of one dream. `model` None: no model is configured."""

    memory: Memory
    model: Model | None
    clock: Callable[[], datetime]
    on_failure: str = "keep"
