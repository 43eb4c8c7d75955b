"""Hormones: three levels in [0, 1] that weigh what matters now: dopamine, cortisol, oxytocin.

`level = baseline + (level - baseline) * 2^(-elapsed / half-life)`, computed on reading. Feelings raise levels. The
levels weigh the lines of MEMORY.md and set the valence of new crystals; a level that rises above .7 leaves a note.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state.text.line import as_line

HALF_LIFE_MINUTES = (30.0, 60.0, 45.0)
SPIKE_LEVEL = 0.7
_EXCERPT_CHARACTERS = 160
_AUTOMATIC = "Hormonal event: "
_NAMED = re.compile(r"\b(?:hormon\w*|dopamine|cortisol|oxytocin)\b", re.IGNORECASE)


class Hormone(StrEnum):
    """The three hormones, in the order in which the mood names them."""

    DOPAMINE = "dopamine"
    CORTISOL = "cortisol"
    OXYTOCIN = "oxytocin"


class Feeling(StrEnum):
    """An event that raises levels."""

    REWARD = "reward"
    ERROR = "error"
    SOCIAL = "social"
    ACHIEVEMENT = "achievement"
    URGENCY = "urgency"


RAISES = {
    Feeling.REWARD: (0.3, 0.0, 0.0),
    Feeling.ERROR: (0.0, 0.3, 0.0),
    Feeling.SOCIAL: (0.0, 0.0, 0.3),
    Feeling.ACHIEVEMENT: (0.4, 0.0, 0.2),
    Feeling.URGENCY: (0.0, 0.4, 0.0),
}
_MOODS = (
    ("energized", "motivated"),
    ("stressed", "alert"),
    ("deeply connected", "socially engaged"),
)
_DETECTED = {
    Hormone.DOPAMINE: "achievement/breakthrough",
    Hormone.CORTISOL: "friction/urgency",
    Hormone.OXYTOCIN: "social bonding",
}


Levels = tuple[float, float, float]
"""A level of each hormone, in the order of `Hormone`."""
BASELINES: Levels = (0.15, 0.02, 0.20)
"""The levels to which hormones decay, unless the configuration has others."""


@dataclass(frozen=True, slots=True)
class Hormones:
    """The levels at a moment; use `decayed` to get the current ones."""

    dopamine: float
    cortisol: float
    oxytocin: float
    at: datetime

    @property
    def levels(self) -> Levels:
        """Return the levels in the order of `Hormone`."""
        return self.dopamine, self.cortisol, self.oxytocin

    def level(self, hormone: Hormone) -> float:
        """Return one level."""
        return self.levels[list(Hormone).index(hormone)]


def resting(now: datetime, baselines: Levels = BASELINES) -> Hormones:
    """Return the levels of a workspace in which nothing has happened yet."""
    return Hormones(*baselines, at=now)


def decayed(hormones: Hormones, now: datetime, baselines: Levels = BASELINES) -> Hormones:
    """Return the levels now. If the clock was set back, no time has passed."""
    minutes = max(0.0, (now - hormones.at).total_seconds() / 60.0)
    each = zip(hormones.levels, baselines, HALF_LIFE_MINUTES, strict=True)
    dopamine, cortisol, oxytocin = (base + (level - base) * 2.0 ** (-minutes / half) for level, base, half in each)
    return Hormones(dopamine, cortisol, oxytocin, now)


def felt(hormones: Hormones, feelings: Sequence[Feeling], now: datetime, baselines: Levels = BASELINES) -> Hormones:
    """Return the levels now, after these events: their sum, at most 1."""
    levels = decayed(hormones, now, baselines).levels
    raised = (level + sum(RAISES[feeling][i] for feeling in feelings) for i, level in enumerate(levels))
    dopamine, cortisol, oxytocin = (min(1.0, level) for level in raised)
    return Hormones(dopamine, cortisol, oxytocin, now)


def mood(hormones: Hormones) -> str:
    """Return the levels in words, joined by commas; "calm" if none exceeds .3. Pass levels decayed to now."""
    words = []
    for level, (high, raised) in zip(hormones.levels, _MOODS, strict=True):
        if level > 0.6:
            words.append(high)
        elif level > 0.3:
            words.append(raised)
    return ", ".join(words) or "calm"


def valence(hormones: Hormones) -> float:
    """Return (dopamine + oxytocin - cortisol) / 2, in [-.5, 1]: the valence of what is remembered now."""
    return (hormones.dopamine + hormones.oxytocin - hormones.cortisol) / 2.0


def spikes(before: Hormones, after: Hormones) -> tuple[Hormone, ...]:
    """Return the hormones that have just risen above .7; `before` are the levels decayed to the time of the event."""
    return tuple(one for one in Hormone if before.level(one) < SPIKE_LEVEL < after.level(one))


def spike_note(hormone: Hormone, level: float, feelings: Sequence[Feeling], excerpt: str = "") -> str:
    """Return the text of the automatic note about a spike, on one line, without [AUTO].

    It names the events that raised the hormone, and quotes the text they were read from.
    """
    index = list(Hormone).index(hormone)
    counted = Counter(feeling for feeling in feelings if RAISES[feeling][index] > 0)
    causes = " and ".join(feeling.value + (f" ×{n}" if n > 1 else "") for feeling, n in counted.items())
    quoted = as_line(excerpt, _EXCERPT_CHARACTERS).replace('"', "'")
    raised = f"Raised to {level:.2f}" + (f" by {causes}" if causes else "") + (f': "{quoted}"' if quoted else ".")
    return f"{_AUTOMATIC}{hormone.value} spike ({_DETECTED[hormone]} detected). {raised}"


def is_hormone_event(text: str) -> bool:
    """Return whether a text is an automatic note about a spike."""
    return text.startswith(_AUTOMATIC)


def asks_for_hormones(query: str) -> bool:
    """Return whether a query names hormones, or one of the three."""
    return _NAMED.search(query) is not None
