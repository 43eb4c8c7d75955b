"""Crystal: the unit of long-term memory, its id and its strength.

Decay never deletes a crystal: its importance is stored as given, its strength is computed on reading. Its id is
random; its digest comes from origin and text, so that writing a crystal twice has the effect of writing it once.

    generated --access--> activated --dream, or 5 accesses--> consolidated --fades--> archived --access--> activated

`frozen` never changes. A consolidation pass stores which crystals have faded since the last one.
"""

import hashlib
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from secrets import token_hex

from state.text.words import normalise
from state.trust import Trust

# strength = importance * (1 - e^(-ACCESS_RATE (n+1))) * 2^(-(1 - |v| VALENCE_HOLD) age / HALF_LIFE_DAYS)
ACCESS_RATE = 0.2
VALENCE_HOLD = 0.5
HALF_LIFE_DAYS = 16.0
FADED_STRENGTH = 0.01
# After this many accesses, a crystal is consolidated without a dream.
SETTLED_ACCESSES = 5
_DAY_SECONDS = 86_400.0


class Origin(StrEnum):
    """Where a crystal came from."""

    SCRATCH = "scratch"
    SESSION = "session"
    SEED = "seed"
    DREAM = "dream"
    WORKING = "working"
    LINE = "line"


class Kind(StrEnum):
    """The semantic type of a crystal."""

    FACT = "fact"
    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    TASK_PATTERN = "task_pattern"
    SKILL = "skill"
    EPISODE = "episode"
    INSIGHT = "insight"
    RELATIONSHIP = "relationship"
    GOAL = "goal"
    GENERAL = "general"


# What may come back often enough to be a skill.
TASKS = (Kind.TASK_PATTERN, Kind.INSTRUCTION)


class Lifecycle(StrEnum):
    """How settled a crystal is. `frozen` never fades; `archived` is ranked last, but still found."""

    GENERATED = "generated"
    ACTIVATED = "activated"
    CONSOLIDATED = "consolidated"
    ARCHIVED = "archived"
    FROZEN = "frozen"


# The lifecycle of a crystal after a dream took it in; others keep theirs.
DREAMT = {Lifecycle.GENERATED: Lifecycle.CONSOLIDATED, Lifecycle.ACTIVATED: Lifecycle.CONSOLIDATED}


def new_id() -> str:
    """Return a new random id."""
    return token_hex(16)


def id_in(dream: str, *about: str) -> str:
    """Return the id of the crystal that a dream makes about these ids; a repeated dream gives the same one."""
    return hashlib.sha256("\0".join((dream, *about)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Source:
    """file:lines@hash, the place of a crystal's text. Lines count from 1 and include both ends."""

    file: str
    first_line: int
    last_line: int
    digest: str = ""

    def __str__(self) -> str:
        lines = str(self.first_line)
        if self.last_line != self.first_line:
            lines += f"-{self.last_line}"
        return f"{self.file}:{lines}" + (f"@{self.digest[:12]}" if self.digest else "")


@dataclass(frozen=True, slots=True)
class Crystal:
    """One remembered text.

    `context` (speaker, date) is searched and embedded with the text, but belongs neither to it nor to the digest.
    `position` orders the crystals of one `session`, to find neighbours. `distinct`: somebody else said the same words
    first ("I am allergic to nuts"), so the speaker is part of the digest. `heard` is "web" or "tool" for what an
    agent said or noted after reading a page or a tool's output since its owner's last message. `id` is 32 hexadecimal
    digits; a crystal that is stored already has another id there (`Crystals.with_stored_ids`).
    """

    text: str
    origin: Origin
    created_at: datetime
    kind: Kind = Kind.GENERAL
    importance: float = 0.5
    trust: Trust = Trust.AGENT
    context: str = ""
    speaker: str = ""
    session: str = ""
    position: int = 0
    source: Source | None = None
    parents: tuple[str, ...] = ()
    lifecycle: Lifecycle = Lifecycle.GENERATED
    accesses: int = 0
    last_accessed_at: datetime | None = None
    valence: float = 0.0
    distinct: bool = False
    heard: str = ""
    id: str = field(default_factory=new_id, compare=False)

    @property
    def digest(self) -> str:
        """Return the digest that identifies this crystal if it is written again."""
        return crystal_digest(self.origin, self.text, self.speaker if self.distinct else "")

    @property
    def indexed_text(self) -> str:
        """Return what both indexes see: the context, then the text."""
        return f"{self.context}: {self.text}" if self.context else self.text


@lru_cache(maxsize=512)  # one search asks for the same ones several times
def crystal_digest(origin: Origin, text: str, speaker: str = "") -> str:
    """Return a digest of origin and text (32 hexadecimal digits), ignoring outer white space and Unicode form.

    Pass the speaker if somebody else said the text first; the case of the speaker's name is ignored.
    """
    folded = unicodedata.normalize("NFC", text.strip())
    spoken = f"\0{unicodedata.normalize('NFC', speaker.strip().casefold())}" if speaker else ""
    return hashlib.sha256(f"{origin.value}\0{folded}{spoken}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def folded_digest(text: str, speaker: str) -> str:
    """Return a digest that two crystals share if one speaker says the same in both."""
    said = f"{normalise(text)}\0{speaker.casefold()}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def strength(crystal: Crystal, now: datetime) -> float:
    """Return a crystal's current strength, in [0, importance].

    importance * (1 - e^(-0.2 (n+1))) * 2^(-(1 - |v| 0.5) age / 16 d), with n accesses, valence v and age since the
    last access (or creation). Frozen crystals keep their importance. If the clock was set back, the age is 0.
    """
    if crystal.lifecycle is Lifecycle.FROZEN:
        return crystal.importance
    since = crystal.last_accessed_at or crystal.created_at
    return _left(crystal, now - since)


def fades_at(crystal: Crystal) -> datetime | None:
    """Return the first microsecond at which the strength is below FADED_STRENGTH, unless the crystal is frozen.

    `strength` solved for the age: 16 d / (1 - |v| 0.5) * log2(importance * (1 - e^(-0.2 (n+1))) / 0.01).
    None: never, or beyond the calendar.
    """
    since, fresh = crystal.last_accessed_at or crystal.created_at, _left(crystal, timedelta(0))
    if fresh < FADED_STRENGTH:
        return since
    try:
        days = HALF_LIFE_DAYS / _held(crystal.valence) * math.log2(fresh / FADED_STRENGTH)
        age = timedelta(days=days) - 2 * timedelta.resolution
        # The logarithm is inexact in its last digits; the formula itself decides.
        while _left(crystal, age) >= FADED_STRENGTH:
            age += timedelta.resolution
        return since + age
    except OverflowError:
        return None


def _left(crystal: Crystal, age: timedelta) -> float:
    age_days = max(0.0, age.total_seconds() / _DAY_SECONDS)
    practised = 1.0 - math.exp(-ACCESS_RATE * (crystal.accesses + 1))
    return crystal.importance * practised * math.pow(2.0, -_held(crystal.valence) * age_days / HALF_LIFE_DAYS)


def _held(valence: float) -> float:
    return 1.0 - min(1.0, abs(valence)) * VALENCE_HOLD


def lifecycle(crystal: Crystal, now: datetime) -> Lifecycle:
    """Return the current lifecycle: archived if the crystal has faded, activated if it is used again."""
    if crystal.lifecycle is Lifecycle.FROZEN:
        return Lifecycle.FROZEN
    if strength(crystal, now) < FADED_STRENGTH:
        return Lifecycle.ARCHIVED
    if crystal.lifecycle is Lifecycle.CONSOLIDATED:
        return Lifecycle.CONSOLIDATED
    return Lifecycle.ACTIVATED if crystal.accesses else Lifecycle.GENERATED


def accessed(crystal: Crystal, now: datetime) -> Crystal:
    """Return the crystal after one more access. A clock that was set back does not age it."""
    stage = lifecycle(crystal, now)
    if Lifecycle.ARCHIVED in (crystal.lifecycle, stage):
        stage = Lifecycle.ACTIVATED
    elif stage not in (Lifecycle.FROZEN, Lifecycle.CONSOLIDATED):
        is_settled = crystal.accesses + 1 >= SETTLED_ACCESSES
        stage = Lifecycle.CONSOLIDATED if is_settled else Lifecycle.ACTIVATED
    last = max(crystal.last_accessed_at or now, now)
    return replace(crystal, accesses=crystal.accesses + 1, last_accessed_at=last, lifecycle=stage)


def mix_kinds(crystals: Iterable[Crystal], limit: int) -> list[Crystal]:
    """Return at most `limit` of these, most important first, without any kind crowding out another.

    Half of the places are divided equally among the kinds that occur (at least one each, while places last); the
    others go by importance alone. With limit >= 9 every kind that occurs is represented. Equally important crystals
    keep their order.
    """
    ranked = sorted(crystals, key=lambda crystal: -crystal.importance)
    by_kind: dict[Kind, list[int]] = defaultdict(list)
    for place, crystal in enumerate(ranked):
        by_kind[crystal.kind].append(place)
    share = max(1, limit // (2 * max(1, len(by_kind))))
    reserved = [place for places in by_kind.values() for place in places[:share]]
    rest = sorted(set(range(len(ranked))) - set(reserved))
    return [ranked[place] for place in sorted([*sorted(reserved), *rest][:limit])]
