"""Facts about people, places, hosts and contacts, which speak of passwords, keys and doors and hold no secret.

`facts(forms, seed, each)` draws some; `LEARNT` are the forms that benchmarks/fit_secrets.py learns from, `OTHERS` the
rest. facts.json has them, and the words that stand for their slots.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_FACTS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_WORDS: dict[str, list[str]] = _FACTS["words"]
LEARNT: list[str] = _FACTS["learnt"]
OTHERS: list[str] = _FACTS["others"]


def facts(forms: Sequence[str], seed: int, each: int) -> Iterator[str]:
    """So many texts of each form, drawn from a seed."""
    rng = random.Random(seed)
    for form in forms:
        for _ in range(each):
            yield re.sub(r"\{(\w+)\}", lambda match: _drawn(rng, _WORDS[match[1]]), form)


def _drawn(rng: random.Random, words: Sequence[str]) -> str:
    return rng.choice(words)
