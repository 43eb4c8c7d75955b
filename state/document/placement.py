"""Placement: which section of MEMORY.md a text belongs to, told from its words, in each of the known languages.

Words count by their sorts: of whom a text speaks, whether of family, tastes, trade or work, what is asked or unknown;
and a little by themselves. How much each weighs is in placement.json, fitted by `benchmarks.fit_placement` for all
languages together.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from functools import cache, lru_cache
from importlib import resources

from state.document.document import SectionName
from state.text.languages.detection import language_of
from state.text.languages.loader import languages, table, table_of
from state.text.languages.tables import Sections, Topics
from state.text.patterns import late_pattern
from state.text.words import UNSPACED, terms

MOST_CHARACTERS = 2_000  # of a text that are read
MOST_COUNTED = 3  # words of one sort
SHORT, SHORT_UNSPACED = 40, 18

_BEGINNING = 2  # characters that may stand before the first word
_STEM = 6
_SHORT_STEM, _ENDING = 5, 3
_ASKS = re.compile(r"[?？؟][\"'”’»」)\s]*$")
_TECHNICAL = re.compile(r"[/_@]\w|\w\.\w{2,}|\d\.\d+\.|[a-z]+-\d")
_QUOTED = re.compile(r"[«»“”\"「」《]")
_CAPITAL = late_pattern(r"(?<![.!?:…] )(?<!^)\b[A-ZÀ-ÞА-Я]")
_UNSPACED = late_pattern(f"[{UNSPACED}]")
_NAME = late_pattern(rf"\s*([^\W\d_{UNSPACED}][\w'-]+|[{UNSPACED}]{{1,4}}(?![{UNSPACED}]))")


def placed(text: str, *, by_owner: bool = False, names: Collection[str] = ()) -> SectionName:
    """The section of a text that its owner or an agent wrote; `names` are those of the owner, casefolded."""
    return _placed(text, by_owner, frozenset(names))


@lru_cache(maxsize=256)  # a dream asks twice or thrice of the same input
def _placed(text: str, by_owner: bool, names: frozenset[str]) -> SectionName:  # noqa: FBT001 - lru_cache
    return max(_scores(features(text, by_owner=by_owner, names=names)).items(), key=lambda pair: pair[1])[0]


def names_in(texts: Iterable[str]) -> frozenset[str]:
    """The names by which the user is called in these texts ("My name is Ada"), casefolded."""
    found = set()
    for text in texts:
        for match in _naming().finditer(text):
            name = _NAME.match(text, match.end())
            if name and (name[1][0].isupper() or _UNSPACED.match(name[1])):
                found.add(name[1].casefold())
    return frozenset(found)


def features(text: str, *, by_owner: bool = False, names: Collection[str] = ()) -> dict[str, float]:
    """What is asked of a text, by name."""
    shown = text[:MOST_CHARACTERS].replace("’", "'")
    folded = shown.casefold()
    unspaced = bool(_UNSPACED.search(folded))
    found = _read(folded, names) | {
        "owner": float(by_owner),
        "asks": float(bool(_ASKS.search(folded))),
        "asks_inside": float("?" in folded or "？" in folded),
        "digits": float(any(char.isdigit() for char in folded)),
        "technical": float(bool(_TECHNICAL.search(folded))),
        "quoted": float(bool(_QUOTED.search(folded))),
        "capital": float(bool(_CAPITAL.search(shown))),
        "short": float(len(folded) < (SHORT_UNSPACED if unspaced else SHORT)),
        "long": min(len(folded) / (60 if unspaced else 150), 2.0),
    }
    has = {sort: float(f"has {sort}" in found) for sort in _rows()}
    if by_owner:
        found |= {f"owner, {sort}": there for sort, there in has.items() if there}
    else:
        found |= {"agent speaks": has["speaker"], "agent begins": found.get("begins with speaker", 0.0)}
        found["agent, traits"] = has["traits"]
    found["speaker, traits"] = has["speaker"] * has["traits"]
    found["person, private"] = has["person"] * max(has["life"], has["tastes"], has["family"])
    found["person, work"] = has["person"] * has["work"]
    found["nobody"] = float(not any(has[sort] for sort in ("person", "speaker", "titles", "family")))
    found["nothing"] = float(not any(has.values()))
    return found | _stems(folded)


def _read(folded: str, names: Collection[str]) -> dict[str, float]:
    """The sorts of words of a text in its language: of those that it may be in, the one that knows most of it."""
    surest = language_of(folded)
    if surest in _unspaced_languages():
        return _sorts(folded, surest, names)
    read = {code: _sorts(folded, code, names) for code in _latin() if surest in _latin()} or {
        surest: _sorts(folded, surest, names)
    }
    return max(read.items(), key=lambda pair: (sum(pair[1].values()) + (pair[0] == surest), pair[0] == "en"))[1]


def _sorts(folded: str, language: str, names: Collection[str]) -> dict[str, float]:
    """How many words of each sort there are, and with which sort the text begins."""
    found: dict[str, float] = {}
    for sort, pattern in _patterns(language).items():
        matches = list(pattern.finditer(folded))
        words = {match.group() for match in matches}
        if sort == "person":
            words |= {name for name in names if _names(name).search(folded)}
            folded = pattern.sub(lambda match: "\0" * len(match.group()), folded)  # "my human" is no speaker
        if words:
            found[sort] = math.sqrt(min(len(words), MOST_COUNTED))
            found[f"has {sort}"] = 1.0
        if matches and matches[0].start() <= _BEGINNING:
            found[f"begins with {sort}"] = 1.0
    return found


@cache
def _names(name: str) -> re.Pattern[str]:
    return _either((name,))


def _stems(folded: str) -> dict[str, float]:
    stems = {term[:_STEM] for term in terms(folded)}
    return {f"~{stem}": 1.0 / math.sqrt(len(stems)) for stem in stems}


@cache
def _unspaced_languages() -> frozenset[str]:
    return frozenset(("ja", "zh"))


@cache
def _latin() -> tuple[str, ...]:
    """The languages in Latin letters whose topics are known."""
    return tuple(code for code in languages() if code not in {"ja", "ru", "zh"} and table_of(code, Topics).speaker)


@cache
def _rows() -> tuple[str, ...]:
    return tuple(asdict(table_of("en", Topics)))


@cache
def _patterns(language: str) -> dict[str, re.Pattern[str]]:
    rows = asdict(table_of(language, Topics))
    return {sort: _either(rows[sort]) for sort in ("person", *(row for row in rows if row != "person"))}


def _either(words: Iterable[str]) -> re.Pattern[str]:
    ordered = sorted(words, key=len, reverse=True)
    whole = [_with_ending(word) for word in ordered if not _UNSPACED.search(word)]
    inside = [re.escape(word) for word in ordered if _UNSPACED.search(word)]
    return re.compile("|".join([*inside, *([rf"(?<!\w)(?:{'|'.join(whole)})(?!\w)"] if whole else [])]) or r"(?!)")


def _with_ending(word: str) -> str:
    """A short beginning of words has short endings only, or it would begin too many."""
    ending = rf"\w{{0,{_ENDING}}}" if len(word) <= _SHORT_STEM else r"\w*"
    return re.escape(word).replace(r"\*", ending)


@cache
def _naming() -> re.Pattern[str]:
    return re.compile(table(Sections).naming.pattern.removesuffix(r"(?!\w)"), re.IGNORECASE)


@cache
def _weights() -> dict[SectionName, Mapping[str, float]]:
    content = json.loads(resources.files("state.document").joinpath("placement.json").read_text(encoding="utf-8"))
    return {SectionName(section): weights for section, weights in content.items()}


def _scores(found: Mapping[str, float]) -> dict[SectionName, float]:
    return {
        section: weights[""] + sum(value * weights.get(name, 0.0) for name, value in found.items())
        for section, weights in _weights().items()
    }
