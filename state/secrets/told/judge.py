"""Judge: whether a candidate is a secret that is told, by weights that were fitted (benchmarks/fit_secrets.py)."""

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path

from state.secrets.told.candidates import Candidate
from state.secrets.told.features import Surroundings, around, crossed, look

_NONE = itertools.repeat(0.0)

Judge = Callable[[str, Candidate], bool]


def is_told(text: str, one: Candidate) -> bool:
    """Return whether the sum of the weights of all that is noticed of the candidate is that of a secret."""
    weights, least = _weights()
    place = around(text, one)
    seen = look(text[one.start : min(one.end, one.start + 128)], one.form)
    together = _together(seen, place.tie, place.best, place.kind, place.code, place.flags)
    return sum(map(weights.get, place.names, _NONE)) + together > least


@functools.lru_cache(4096)
def _together(seen: tuple[str, ...], tie: str, best: str, kind: str, code: str, flags: tuple[str, ...]) -> float:
    weights, _ = _weights()
    return sum(map(weights.get, crossed(seen, Surroundings((), tie, best, kind, code, flags)), _NONE))


@functools.cache
def _weights() -> tuple[dict[str, float], float]:
    read = json.loads(Path(__file__).with_name("weights.json").read_text("utf-8"))
    return read["weights"], read["least"]
