"""Running dream: lets a client follow a dream that another client, or the schedule, has begun."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from daemon.dream.progress import Step

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome


class RunningDream:
    """A dream while it runs: its steps so far and, in the end, its outcome or error. Thread-safe."""

    def __init__(self, mode: "Mode") -> None:
        self.mode = mode
        self._steps: list[Step] = []
        self._end: Outcome | BaseException | None = None
        self._moved = threading.Condition()

    def add(self, step: Step) -> None:
        """Report a finished step to all followers."""
        with self._moved:
            self._steps.append(step)
            self._moved.notify_all()

    def end(self, end: "Outcome | BaseException") -> None:
        """Report how the dream ended to all followers."""
        with self._moved:
            self._end = end
            self._moved.notify_all()

    def follow(self, on_step: Callable[[Step], None]) -> "Outcome":
        """Report the steps so far and each further one; return the outcome, or raise the error, at the end."""
        count = 0

        def is_news() -> bool:
            return len(self._steps) > count or self._end is not None

        while True:
            with self._moved:
                self._moved.wait_for(is_news)
                new, end = self._steps[count:], self._end
            for step in new:
                on_step(step)
            count += len(new)
            if isinstance(end, BaseException):
                raise end
            if end is not None:
                return end
