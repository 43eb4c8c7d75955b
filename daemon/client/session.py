"""Session: the bounded working memory of one conversation, as a program holds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.sessions.answers import (
        Capacity,
        Closed,
        LongTerm,
        Memories,
        Memorized,
        Opened,
        Recalled,
        WorkingContext,
    )

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")

Priority = Literal["low", "medium", "high", "critical"]


class Ask(Protocol):
    """Has an operation done."""

    def __call__(self, operation: "Operation[P, ReplyT]", *args: P.args, **kwargs: P.kwargs) -> ReplyT:
        """Return the operation's reply."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session by its id; `Client.session` opens and closes one."""

    ask: Ask = field(repr=False)
    id: str

    def open(self, policy: Literal["ttl", "budget", "hybrid", "bounded"], config: Mapping[str, Any]) -> "Opened":
        """Give the session its policy, and the settings of that (docs/sessions.md)."""
        from daemon.api.operations.sessions import open_

        return self.ask(open_, session_id=self.id, policy=policy, config=dict(config))

    def add(
        self,
        content: str,
        *,
        importance: float | None = None,
        priority: Priority = "medium",
        tags: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
    ) -> "Memorized":
        """Keep this in mind; the reply says what had to leave for it. Durable when this returns."""
        from daemon.api.operations.sessions import memorize

        more: dict[str, Any] = {"priority": priority, "tags": tuple(tags), "metadata": dict(metadata or {})}
        return self.ask(memorize, session_id=self.id, content=content, importance=importance, **more)

    def context(
        self, max_tokens: int | None = None, strategy: Literal["recent", "important", "balanced"] = "balanced"
    ) -> "WorkingContext":
        """Return what the session has in mind as one text for a model's context."""
        from daemon.api.operations.sessions import context

        return self.ask(context, session_id=self.id, strategy=strategy, max_tokens=max_tokens)

    def remember(self, prompt: str = "", limit: int = 50, cursor: str = "") -> "Memories":
        """Return what the session has in mind about this, the most important and newest first."""
        from daemon.api.operations.sessions import remember

        return self.ask(remember, session_id=self.id, prompt=prompt, limit=limit, cursor=cursor)

    def recall(self, query: str = "", limit: int = 10, cursor: str = "") -> "Recalled":
        """Return what left the session."""
        from daemon.api.operations.sessions import recall

        return self.ask(recall, session_id=self.id, query=query, limit=limit, cursor=cursor)

    def promote(self, memory_id: str) -> "LongTerm":
        """Make a memory long-term now: the workspace's search finds it from then on."""
        from daemon.api.operations.sessions import promote

        return self.ask(promote, session_id=self.id, memory_id=memory_id)

    def capacity(self) -> "Capacity":
        """Say how full the session is."""
        from daemon.api.operations.sessions import capacity

        return self.ask(capacity, session_id=self.id)

    def close(self) -> "Closed":
        """End the session; the next dream takes in what mattered in it."""
        from daemon.api.operations.sessions import close

        return self.ask(close, session_id=self.id)
