"""What a detector costs: the time of the processor, with nothing remembered from one call to the next."""

import sys
import time
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

_Cached = type(lru_cache(maxsize=1)(len))
# Below this the clock and the machine decide, not the detector.
FLOOR_SECONDS = 0.004
# Only what looks slow is asked so often: the best of many is the detector's own time, however busy the machine is.
_TRIES = 25
SUSPICIOUS = 5.0


def seconds(detector: Callable[[str], object], text: str, *, forget: bool = True) -> float:
    """The processor's time for one call."""
    if forget:
        forget_texts()
    started = time.process_time()
    detector(text)
    return time.process_time() - started


def forget_texts() -> None:
    """Empty what remembers texts."""
    for remembered in _caches():
        remembered.cache_clear()


def growth(detector: Callable[[str], object], shape: Callable[[int], str], length: int) -> float:
    """How many times longer four times the length takes, the best of several; 0 where it takes no time.

    Where that is much, it is asked of longer texts too: what is not linear grows there as well, the noise of a busy
    machine does not.
    """
    grown = _growth(detector, shape, length)
    for longer in (4 * length, 16 * length):
        if grown > SUSPICIOUS:
            grown = min(grown, _growth(detector, shape, longer))
    return grown


def _growth(detector: Callable[[str], object], shape: Callable[[int], str], length: int) -> float:
    long, short = shape(4 * length), shape(length)
    best_long = seconds(detector, long)
    if best_long < FLOOR_SECONDS:
        return 0.0
    best_short = seconds(detector, short)
    for _ in range(_TRIES):
        if best_long <= SUSPICIOUS * best_short:
            break
        best_long = min(best_long, seconds(detector, long))
        best_short = min(best_short, seconds(detector, short))
    return best_long / best_short


@cache
def _caches() -> tuple[Any, ...]:
    """Of the packages under test those that hold texts, not tables."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in {"state", "graphs"}]
    found = {id(value): value for module in modules for value in vars(module).values()}
    return tuple(
        value for value in found.values() if isinstance(value, _Cached) and value.cache_parameters()["maxsize"]
    )
