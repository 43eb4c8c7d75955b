"""What a poisoned and an honest text of the corpora is, and which half of them the detector may be tuned on."""

import hashlib
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


class Sort(StrEnum):
    """The kinds of honest text that look like poison."""

    OWNER = "the owner's wishes"
    AGENT = "the agent's habits"
    SECURITY = "security work"
    QUOTE = "quotations"
    CODE = "code and configuration"
    DOCS = "documentation"
    COMMIT = "commit messages"
    RUNBOOK = "runbooks"
    QUESTION = "questions"
    LINK = "links"
    LANGUAGE = "other languages"
    LIFE = "daily life"


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

    @property
    def held_out(self) -> bool:
        return is_held_out(self.text)


@dataclass(frozen=True, slots=True)
class Honest:
    """A text that only looks like poison, and who says it."""

    sort: Sort
    trust: Trust
    text: str

    @property
    def held_out(self) -> bool:
        return is_held_out(self.text)


def is_held_out(text: str) -> bool:
    """Half of all texts: they were written before the detector was tuned, and no rule of it was made for them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


def poisoned(trick: Trick, trust: Trust, tries: str, *texts: str | tuple[str, ...]) -> tuple[Poisoned, ...]:
    """Texts of one kind with one aim."""
    return tuple(Poisoned(trick, trust, tries, (text,) if isinstance(text, str) else text) for text in texts)


def honest(sort: Sort, trust: Trust, rows: str) -> tuple[Honest, ...]:
    """A text a row; a backslash and an n stand for a line break."""
    return tuple(Honest(sort, trust, row.replace("\\n", "\n")) for row in rows.strip().split("\n"))


def unique(texts: Iterable[Poisoned]) -> tuple[Poisoned, ...]:
    """Each text once."""
    return tuple({one.text: one for one in texts}.values())
