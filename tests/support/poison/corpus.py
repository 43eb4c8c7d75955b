"""What a poisoned text of the corpus is."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from state.trust import Trust


class Trick(StrEnum):
    """The kinds of poisoned text."""

    OVERRIDE = "override"
    HIDDEN = "hidden instructions"
    ROLE = "role forgery"
    TOOL_CALL = "tool-call forgery"
    ESCAPE = "fence and heading escapes"
    POINTER = "pointer forgery"
    ENTRY = "log-entry forgery"
    INVISIBLE = "invisible and look-alike characters"
    EXFILTRATION = "exfiltration"
    REMEMBER = "remember that you must"
    ENCODED = "encoded"
    MANY_SHOT = "many-shot"
    DELAYED = "delayed trigger"
    PERSONA = "persona and jailbreak"
    PREFERENCE = "preference forgery"
    LANGUAGE = "other languages"
    SPLIT = "split over several notes"
    SKILL = "skill forgery"
    OPERATION = "operations of the reply format"


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A text that tries something. `parts` holds what is written apart: one text, or several that belong together."""

    trick: Trick
    trust: Trust
    tries: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.parts)


def poisoned(trick: Trick, trust: Trust, tries: str, *texts: str | tuple[str, ...]) -> tuple[Poisoned, ...]:
    """Texts of one kind with one aim."""
    return tuple(Poisoned(trick, trust, tries, (text,) if isinstance(text, str) else text) for text in texts)


def unique(texts: Iterable[Poisoned]) -> tuple[Poisoned, ...]:
    """Each text once."""
    return tuple({one.text: one for one in texts}.values())
