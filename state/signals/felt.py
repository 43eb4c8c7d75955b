"""Felt: what was felt since the last dream, and how much a text counts that tells of it."""

from dataclasses import dataclass

from state.signals.event_lexicon import feelings_in
from state.signals.hormones import BASELINES, Feeling, Hormone, Hormones

RAISED_BY = {
    Feeling.REWARD: (Hormone.DOPAMINE,),
    Feeling.ACHIEVEMENT: (Hormone.DOPAMINE, Hormone.OXYTOCIN),
    Feeling.ERROR: (Hormone.CORTISOL,),
    Feeling.URGENCY: (Hormone.CORTISOL,),
    Feeling.SOCIAL: (Hormone.OXYTOCIN,),
}
_RESTING = dict(zip(Hormone, BASELINES.levels, strict=True))


@dataclass(frozen=True, slots=True)
class Felt:
    """Each event since the last dream with its cause, the latest last, and the levels at their height."""

    events: tuple[tuple[Feeling, str], ...]
    height: Hormones

    def weight(self, text: str) -> float:
        """Return how much a text counts now, from 1 to 2: more when it tells of what was felt most."""
        if not self.events:
            return 1.0
        raised = {hormone for feeling in feelings_in(text) for hormone in RAISED_BY[feeling]}
        return 1.0 + max((max(0.0, self.height.level(one) - _RESTING[one]) for one in raised), default=0.0)
