"""Life: notes of many days with the facts that they state, the input of `dreamd eval`.

A life is data: TOML or JSON of one shape, the one built in (`life.toml`, whose head says what each key means) or
one's own. What a text states is judged by fact, not by a value that may stand in many notes: it is a note's own text,
or it has the value and is about the subject.
"""

import json
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from state.codec import first_problem
from state.errors import UsageError
from state.scratch import DEFAULT_IMPORTANCE, Note
from state.text.words import UNSPACED, content_terms, normalise, terms

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILT_IN = "the built-in life"
_SHAPE = "docs/eval.md says what a life is"
_DEFAULT_DAYS = 60
# An agent that notes a thing in passing says so.
_NOISE_IMPORTANCE = 0.5
# Of the subject's words, which are those of the question where a life names none, a text must have such a share.
_SUBJECT_SHARE = 0.5
_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a note states of a fact: on which day, and the words by which its value is known."""

    day: int
    text: str
    value: tuple[str, ...]

    def is_said_in(self, folded: str) -> bool:
        """Whether the folded text has the whole note, or is a good part of it (a line may have been cut)."""
        own = normalise(self.text)
        return own in folded or (len(folded) * 2 >= len(own) and folded in own)

    def has_value(self, folded: str) -> bool:
        """Whether the folded text has one of the value's words."""
        return any(_has(folded, word) for word in self.value)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact with everything that is ever stated of it, the last statement being the one that holds.

    `again` are other wordings of the last statement of a fact that never changes. `alike` names facts of one shape.
    """

    id: str
    question: str
    past: str
    about: tuple[str, ...]
    alike: str
    statements: tuple[Statement, ...]
    again: tuple[Statement, ...] = ()

    @property
    def current(self) -> Statement:
        """What holds at the end."""
        return self.statements[-1]

    @property
    def superseded(self) -> tuple[Statement, ...]:
        """What held before, and holds no more: a value that came back is none of them."""
        return tuple(one for one in self.statements if set(one.value).isdisjoint(self.current.value))

    def stated_in(self, text: str) -> Statement | None:
        """What the text states of this fact: of several values the latest, for it may say what was before."""
        folded = normalise(text)
        if not folded:
            return None
        for one in (*self.again, *self.statements[::-1]):
            if one.is_said_in(folded):
                return self.current if one in self.again else one
        known = [one for one in self.statements if one.has_value(folded)]
        return known[-1] if known and self._is_subject_of(folded) else None

    def is_current(self, statement: Statement) -> bool:
        """Whether it gives the value that holds at the end."""
        return not set(statement.value).isdisjoint(self.current.value)

    def _is_subject_of(self, folded: str) -> bool:
        if self.about:
            return any(_has(folded, word) for word in self.about)
        wanted = content_terms(self.question)
        return len(wanted & set(terms(folded))) >= _SUBJECT_SHARE * len(wanted)


@dataclass(frozen=True, slots=True)
class Life:
    """The facts, and for each day what is noted, in its order, with its importance."""

    name: str
    facts: tuple[Fact, ...]
    days: tuple[tuple[tuple[str, float], ...], ...]

    def notes(self, end: datetime) -> "Iterator[tuple[Note, ...]]":
        """The notes of each day, stamped as if the last day were the one before `end`."""
        first = end - timedelta(days=len(self.days))
        for day, said in enumerate(self.days):
            yield tuple(
                Note(text, first + timedelta(days=day, minutes=minute), importance)
                for minute, (text, importance) in enumerate(said)
            )


def built_in() -> Life:
    """The life that comes with dreamd."""
    text = resources.files("daemon.evaluation").joinpath("life.toml").read_text(encoding="utf-8")
    return _life(BUILT_IN, tomllib.loads(text))


def read_life(path: Path) -> Life:
    """The life in a TOML or JSON file. Raises UsageError that names what cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: this life cannot be read ({error})", _SHAPE) from error
    return _life(str(path), content)


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _filled(texts: tuple[str, ...]) -> tuple[str, ...]:
    if not all(normalise(text) for text in texts):
        raise ValueError("a text is empty")
    return texts


_Texts = Annotated[tuple[str, ...], BeforeValidator(_several), AfterValidator(_filled)]
_Text = Annotated[str, Field(min_length=1)]
_Day = Annotated[int, Field(ge=0)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Version(_Shape):
    text: _Text
    value: _Texts = Field(min_length=1)
    day: _Day | None = None


class _Changing(_Shape):
    question: _Text
    versions: tuple[_Version, ...] = Field(min_length=1)
    id: str = ""
    past: str = ""
    about: _Texts = ()
    alike: str = ""


class _Steady(_Shape):
    text: _Text
    question: _Text
    value: _Texts = Field(min_length=1)
    day: _Day | None = None
    about: _Texts = ()
    alike: str = ""
    again: _Texts = ()


class _File(_Shape):
    facts: tuple[_Changing, ...] = Field(min_length=1)
    steady: tuple[_Steady, ...] = ()
    noise: _Texts = ()
    noise_importance: Annotated[float, Field(ge=0, le=1)] = _NOISE_IMPORTANCE
    days: Annotated[int, Field(ge=1, le=10_000)] = _DEFAULT_DAYS


def _life(name: str, content: object) -> Life:
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{name}: {first_problem(error, 'it')}", _SHAPE) from error
    chance = random.Random(1)  # noqa: S311 - days, the same for every run; nothing to keep secret
    facts = [_changing(one, at, file.days, chance) for at, one in enumerate(file.facts)]
    facts += [_steady(one, at, file.days, chance) for at, one in enumerate(file.steady)]
    late = [one for fact in facts for one in (*fact.statements, *fact.again) if one.day >= file.days]
    if late:
        raise UsageError(f"{name}: day {late[0].day} of {late[0].text!r} is after its {file.days} days", _SHAPE)
    days = defaultdict[int, list[tuple[str, float]]](list)
    for fact in facts:
        for one in (*fact.statements, *fact.again):
            days[one.day].append((one.text, DEFAULT_IMPORTANCE))
    for text in file.noise:
        days[chance.randrange(file.days)].append((text, file.noise_importance))
    for day in sorted(days):
        chance.shuffle(days[day])
    return Life(name, tuple(facts), tuple(tuple(days[day]) for day in range(file.days)))


def _changing(one: _Changing, at: int, days: int, chance: random.Random) -> Fact:
    count = len(one.versions)
    if all(version.day is not None for version in one.versions):
        when = [version.day or 0 for version in one.versions]
    else:  # two versions of one day could not be told apart
        when = sorted(chance.sample(range(days), count) if count <= days else [0] * count)
    said = [Statement(day, v.text, _folded(v.value)) for day, v in zip(when, one.versions, strict=True)]
    ordered = tuple(sorted(said, key=lambda statement: statement.day))
    return Fact(one.id or f"fact {at + 1}", one.question, one.past, _folded(one.about), one.alike, ordered)


def _steady(one: _Steady, at: int, days: int, chance: random.Random) -> Fact:
    day = one.day if one.day is not None else chance.randrange(days)
    value = _folded(one.value)
    later = [Statement(chance.randrange(min(day, days - 1), days), text, value) for text in one.again]
    said = (Statement(day, one.text, value),)
    return Fact(f"steady {at + 1}", one.question, "", _folded(one.about), one.alike, said, tuple(later))


def _folded(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(normalise(word) for word in words)


def _has(folded: str, word: str) -> bool:
    """Whether the folded text has the folded word; as a whole word, where words are written apart."""
    if _UNSPACED.search(word):
        return word in folded
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", folded) is not None
