"""Text cache: keeps the results of a function on texts, bounded by their characters together.

A cache that counts its entries holds little of short lines and hundreds of megabytes of long notes.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
_ENTRY = 100  # what an entry counts beside its characters


class Remembered(Generic[Asked, Answer]):
    """A function of hashable arguments that keeps its answers, as long as they are `most` characters together.

    `length` says how many one answer counts. The one that was asked for longest ago goes first; what is longer than
    all that may be kept is not. Several threads may ask.
    """

    def __init__(self, function: Callable[Asked, Answer], most: int, length: Callable[..., int]) -> None:
        self.__doc__ = function.__doc__
        self._function = function
        self._most = most
        self._length = length
        self._known: OrderedDict[tuple[Any, ...], Answer] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    @property
    def held(self) -> int:
        """The characters that are kept."""
        return self._held

    def __call__(self, *asked: Asked.args, **named: Asked.kwargs) -> Answer:
        with self._lock:
            if asked in self._known:
                self._known.move_to_end(asked)
                return self._known[asked]
        answer = self._function(*asked, **named)
        cost = self._length(*asked) + _ENTRY
        if cost <= self._most:
            with self._lock:
                self._held += 0 if asked in self._known else cost
                self._known[asked] = answer
                while self._held > self._most:
                    oldest, _ = self._known.popitem(last=False)
                    self._held -= self._length(*oldest) + _ENTRY
        return answer

    def cache_clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._known.clear()
            self._held = 0


def remembered(
    most: int, length: Callable[..., int] = len
) -> Callable[[Callable[Asked, Answer]], Remembered[Asked, Answer]]:
    """Make a function keep its answers; see `Remembered`."""
    return lambda function: Remembered(function, most, length)
