"""Judge: decides whether a candidate is a told secret, by fitted weights (benchmarks/fit_secrets.py).

The weights are for named features: of the candidate, of its surroundings, and of combinations of both.
"""

import functools
import json
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise, repeat
from pathlib import Path
from typing import NamedTuple

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.told.assigned import is_about, name_end
from state.secrets.told.candidates import Candidate
from state.secrets.told.mentions import WORDS, Mention, class_of, words_between
from state.secrets.value import (
    are_drawn,
    is_call,
    is_code,
    is_name,
    is_placeholder,
    is_technical,
    last_word,
    looks_drawn,
    remembered,
    strength,
)
from state.text.languages.loader import commonplace_in_english
from state.text.patterns import late_pattern

_HEX = late_pattern(r"[0-9a-fA-F-]+")
_YEAR = late_pattern(r"(?:19|20)\d\d")
_FILE = late_pattern(
    r"[\w./-]+\.(?:py|js|ts|tsx|json|ya?ml|toml|md|txt|sh|go|rs|c|h|java|kt|rb|php|html|css|xml|ini|cfg|conf|env|zip|pdf|csv|sql|db|log|key|pem|com|org|net|io|dev|de|fr|es|it|ru|cn|jp|example|test|local)\S*"
)
_DOTTED = late_pattern(r"[^\W\d_]+(?:\.[^\W_]+)+")
# Each alternative begins with a literal character, not a set: so Python skips quickly to where one may begin.
_SENTENCE_END = late_pattern(r"\.\s|!\s|\?\s|…\s|。|！|？|\n\s*\n")
_CODE_LINE = late_pattern(r";|\{|\}|\(|\)|\[|\]|=|<|>|::|//|\$")
_CLOCK = r"[\[(]?\d{1,2}[:.]\d\d(?:[:.]\d\d)?[\])]?,?\s{0,2}(?:[-–]\s)?"
# "[10:42] Tom: ", "<lou> ", "Tom (IT) 10:42: ", "> "
_SPEAKER = late_pattern(
    rf"[>\s-]{{0,4}}(?:{_CLOCK})?"
    rf"(?:<[^<>\n]{{1,30}}>|[^\W\d_][\w .()'’-]{{0,30}}?\s{{0,2}}(?:{_CLOCK})?[:：>]|<|:|>)\s*"
)
_SAYS = frozenset(":：<>")
_HEDGE = late_pattern(r"(?:[^\W\d_]{1,6}[,!.…]?\s){0,2}")
_JOINT_WORDS = tuple("und and y e et и та en och i ve with mit con avec com с met med z と".split())
_PAIR = late_pattern(
    r"[\s>*_`\"'“„«「『(（:：=→]*(?:[^\W\d_]{1,3}\s)?[\"'`*“„«「]{0,2}(?P<user>[\w.@+-]{2,60})[\"'`*”»“」]{0,2}"
    rf"\s?(?P<joint>/|\||,|:|：|，|、|;|–|—|-|·|\(|→|\s(?:{'|'.join(_JOINT_WORDS)})\s)[\s\"'`*“„«「『(]*"
)
_BEHIND_JOINTS = " \t\r\n\"'`*“„«「『("
_STRIPPED = " \t\r>*_`\"'“„«「『(（[{‘‚"
_JOINT_NAMES = {
    "colon": ":：", "equals": "=＝", "arrow": "→>", "comma": ",，、", "dash": "—–-", "slash": "/|", "stop": ".。!;",
    "question": "?？", "bracket": "(", "closed": ")]",
}  # fmt: skip
_JOINTS = {sign: name for name, signs in _JOINT_NAMES.items() for sign in signs}
_WEAK = frozenset({"key", "user", "account", "code", "number", "root", "admin"})
_FEW = 2
_CONSONANTS = late_pattern(r"[bcdfghjklmnpqrtvwxz]{4}")
_NAME_SIGNS = frozenset("_-./$@\"'<")
_CLOSE = frozenset({"adjacent", "label", "tells", "told", "leads", "answer", "pair"})
_STRONGEST = (Noun.PASSWORD, Noun.PIN, Noun.KEY, Noun.CODES, Noun.LOGIN, Noun.CODE, Noun.PHRASE, Noun.UNNAMED)
_NAMES = {noun: noun.value for noun in Noun}
_LENGTHS = (3, 4, 5, 6, 8, 12, 20, 40)
_DISTANCES = (1, 3, 8, 16, 32, 64, 100)


Judge = Callable[[str, Candidate], bool]
_NONE = repeat(0.0)


class Place(NamedTuple):
    """The features of a candidate's surroundings that are combined with its look.

    `tie`: how it is tied to the noun before; `kind`: of that noun; `best`: the strongest noun nearby; `code`: how
    much its line looks like a program.
    """

    tie: str
    best: str
    kind: str
    code: str
    flags: tuple[str, ...]


def is_told(text: str, one: Candidate) -> bool:
    """Return whether the candidate's summed weights exceed the threshold for a secret."""
    weights, least = _weights()
    names, place = _around(text, one)
    return sum(map(weights.get, names, _NONE)) + _together(_look_of(text, one), place) > least


@functools.lru_cache(4096)
def _together(seen: tuple[str, ...], place: Place) -> float:
    return sum(map(_weights()[0].get, _crossed(seen, place), _NONE))


@functools.cache
def _weights() -> tuple[dict[str, float], float]:
    read = json.loads(Path(__file__).with_name("weights.json").read_text("utf-8"))
    return read["weights"], read["least"]


def features(text: str, one: Candidate) -> list[str]:
    """Return the names of all features of a candidate: its own, its surroundings', and combinations of both."""
    names, place = _around(text, one)
    return [*names, *_crossed(_look_of(text, one), place)]


def _look_of(text: str, one: Candidate) -> tuple[str, ...]:
    return _look(text[one.start : min(one.end, one.start + 128)], one.form)


@remembered
def _look(value: str, form: str) -> tuple[str, ...]:
    """Return the features of a candidate's look."""
    lowered = value.lower()
    words = vocabulary()
    level = _level(value, form)
    names = [f"level {level}", f"form {form}", f"length {_bucket(len(value), _LENGTHS)}"]
    digits = sum(map(str.isdigit, value))
    parts = [part.lower() for part in WORDS.findall(value)]
    names.append(f"case {_case(value)}")
    if digits:
        names.append(f"digits {min(digits, 4)}")
        names.append("digits end" if value[-1].isdigit() and not value[0].isdigit() else "digits else")
    flags = {
        "symbol": any(character in "!@#$%^&*?+~§€£" for character in value[1:]),
        "dot": bool(_DOTTED.fullmatch(value)),
        "file": bool(_FILE.fullmatch(lowered)),
        "dash": "-" in value[1:],
        "underscore": "_" in value[1:],
        "not ascii": not value.isascii(),
        "slash": "/" in value,
        "mail": "@" in value and "." in value.rpartition("@")[2],
        "brackets": any(character in "(){}[]<>" for character in value),
        "call": is_call(value),
        "code": is_code(value),
        "name": is_name(value),
        "technical": is_technical(value),
        "placeholder": is_placeholder(value),
        "hex": bool(_HEX.fullmatch(value)),
        "year": bool(_YEAR.fullmatch(value)),
        "drawn": looks_drawn(value),
        "noun": key_of(value) in words.named,
        "holds noun": any(part in words.named for part in parts),
        "about": any(part in words.about for part in parts),
        "small": any(part in words.small or part in words.tells for part in parts),
        "common": bool(parts) and sum(part in commonplace_in_english() for part in parts) * 2 >= len(parts),
        "starts odd": value[0] in "-/.~#@$=+:&%",
        "colon": ":" in value,
        "unpronounced": bool(_CONSONANTS.search(lowered)),
        "spaced": " " in value,
        "number": value.replace(" ", "").replace("-", "").isdigit(),
    }
    names += [name for name, is_so in flags.items() if is_so]
    if form in {"phrase", "quoted"} and " " in value:
        names.append(f"words {min(value.count(' ') + 1, 7)}")
        names.append(f"first {class_of(parts[0]) if parts else 'none'}")
        names.append(f"small {min(sum(part in words.small for part in parts), 3)}")
        if are_drawn(value.split()):
            names.append("words drawn")
    return tuple(names)


@remembered
def _level(value: str, form: str) -> str:
    if form in {"number", "code", "wide"}:
        return form
    if form == "phrase" or " " in value:
        return "words"
    if value.isdigit():
        return "number"
    return str(strength(value))


def _case(value: str) -> str:
    if any(a.islower() and b.isupper() for a, b in pairwise(value)):
        return "mixed"
    cases = {"lower": value.islower(), "upper": value.isupper(), "capital": value[0].isupper()}
    return next((name for name, is_so in cases.items() if is_so), "other")


def _bucket(number: int, bounds: tuple[int, ...]) -> int:
    place = bisect_left(bounds, number)
    return bounds[place] if place < len(bounds) else 999


def _crossed(seen: tuple[str, ...], place: Place) -> list[str]:
    """Return the features of a look, and their combinations with the surroundings."""
    level, tie, best, code = seen[0], place.tie, place.best, place.code
    names = [*seen, f"{tie} & {level}", f"{best} & {tie}", f"{place.kind} & {tie}", f"{place.kind} & {level}"]
    names.append(f"{best} & {tie} & {level}" if tie in _CLOSE else f"{best} & {level}")
    names += [f"{code} & {name}" for name in (best, tie)]
    names += [f"{part} & {name}" for part in (tie, best, code) for name in seen[3:]]
    names += [f"{flag} & {name}" for flag in place.flags for name in (level, tie, best, code, seen[1])]
    return names


def _best(one: Candidate) -> str:
    """Return the kind of the strongest noun before a candidate."""
    kinds = {mention.noun for mention in (one.before, *one.earlier) if mention}
    found = next((noun for noun in _STRONGEST if noun in kinds), None)
    return _NAMES[found] if found else "thing" if one.thing else "none"


def _around(text: str, one: Candidate) -> tuple[list[str], Place]:
    """Return the features of a candidate's surroundings."""
    lead, names = _lead(text, one.start)
    tie = "none"
    if one.thing:
        names.append("thing")
    if before := one.before or one.thing:
        tie, noticed = _behind(text, before, one, lead)
        names += noticed
    if one.after:
        noticed = _ahead(text, one.after, one)
        names += noticed
        if "ahead strange 0" in noticed and "ended ahead" not in noticed and tie in {"none", "far", "ended"}:
            tie = "before noun"
    code, noticed = _line(text, one)
    best = _best(one)
    names += [f"{lead} & {name}" for name in noticed if name.startswith("next word")]  # from … to …
    names += [*noticed, code, f"tie {tie}", f"best {best}"]
    flags = tuple(name for name in ("talk", "named", "thing", "worded", "user") if name in names)
    return names, Place(tie, best, _NAMES[one.before.noun] if one.before else "none", code, flags)


def _lead(text: str, start: int) -> tuple[str, list[str]]:
    """Return the mark directly before a candidate, or the class of the word, and the features of that."""
    bare = text[max(0, start - 60) : start].rstrip(_STRIPPED).rstrip()
    last = bare[-1:]
    lead = _JOINTS.get(last, "start" if not bare else "word")
    if lead == "word" and _is_wide(last):
        lead = _wide_class(bare)
    elif lead == "word":
        word, begin = last_word(bare)
        lead = class_of(word.lower())
        if lead == "small":  # "is the", "es el"
            earlier, _ = last_word(bare[:begin].rstrip())
            if earlier and class_of(earlier.lower()) in {"tells", "leads"}:
                lead = "tells"
    is_pair = bare and (last == "/" or text[start - 1 : start] == ":")
    return lead, [f"lead {lead}", *(["pair"] if is_pair else [])]


@remembered
def _noun(text: str, before: Mention) -> tuple[int, tuple[str, ...]]:
    """Return the end of the name that contains a noun, and the noun's features, whatever follows it."""
    stop = name_end(text, before.end)
    noticed = {
        f"before {_NAMES[before.noun]}": True,
        "talk": is_about(text, before.start, before.end, stop),
        "named": text[max(0, before.start - 1) : before.start] in _NAME_SIGNS,
        "worded": is_worded(before.key),
        "weak noun": before.key in _WEAK,
        "user": before.key in _users(),
    }
    return stop, tuple(name for name, is_so in noticed.items() if is_so)


def _behind(text: str, before: Mention, one: Candidate, lead: str) -> tuple[str, list[str]]:
    """Return how a candidate is tied to the noun before it, and the features of the text between."""
    stop, noun = _noun(text, before)
    between = text[stop : one.start]
    count, strange, told, about = words_between(text, stop, one.start)
    ended = bool(_SENTENCE_END.search(between))
    names = [
        *noun,
        f"gap {_bucket(len(between), _DISTANCES)}",
        f"gap words {min(count, 6)}",
        f"lines {min(between.count(chr(10)), 2)}",
        f"strange {min(strange, 4)}",
    ]
    noticed = {
        "told": told,
        "about between": about,
        "sentence ended": ended,
    }
    tie = _tie(between, lead, count, strange, told=told > 0)
    if ended and tie not in {"label", "label far"}:
        tie = "ended"
    if _is_answer(text, between, one):
        tie = "answer"
    elif pair := _pair(between):
        tie = "pair"
        noticed[f"pair {pair}"] = True
    return tie, [*names, *(name for name, is_so in noticed.items() if is_so)]


def _is_answer(text: str, between: str, one: Candidate) -> bool:
    """Return whether a candidate answers the question that contains the noun."""
    asked = max(between.rfind("?"), between.rfind("？"))
    line = between.rfind("\n")
    if not 0 <= asked < line:
        return False
    head = between[line + 1 :]
    said = head[match.end() :] if (match := _SPEAKER.match(head)) else head
    stop = text.find("\n", one.end, one.end + 200)
    rest = text[one.end : stop if stop >= 0 else one.end + 200]
    return _HEDGE.fullmatch(said.lstrip(_STRIPPED)) is not None and len(rest.split()) <= _FEW


def _pair(between: str) -> str:
    """Return what separates a user name from its password, if only the name is between the noun and the password."""
    if len(between) > 100:
        return ""
    last = between.rstrip(_BEHIND_JOINTS)
    if last[-1:].isalnum() and "(" not in between and not last.endswith(_JOINT_WORDS):
        return ""  # a cheap check: most texts do not end in a joint
    match = _PAIR.fullmatch(between)
    if match is None or class_of(match["user"].lower()) != "other":
        return ""
    joint = match["joint"].strip()
    return "word" if joint.isalpha() else "comma" if joint in {",", "，", "、", ";"} else "slash"


def _tie(between: str, lead: str, count: int, strange: int, *, told: bool) -> str:
    if not between.strip(_STRIPPED + "\n"):
        return "adjacent"
    if lead in {"colon", "equals", "arrow"}:
        return "label" if count <= 1 or (not told and strange <= _FEW) else "label far"
    if lead == "tells":
        return "tells" if strange <= 1 else "tells far"
    if told and strange <= 1:
        return "told"
    if lead in {"leads", "small", "dash", "comma"}:
        return lead if strange <= _FEW else f"{lead} far"
    return "near" if strange <= 1 else "far"


def _ahead(text: str, after: Mention, one: Candidate) -> list[str]:
    between, kind = text[one.end : after.start], _NAMES[after.noun]
    _, strange, told, _ = words_between(text, one.end, after.start)
    ended = "\n" in between or bool(_SENTENCE_END.search(between))
    noticed = {
        "told ahead": told,
        "ended ahead": ended,
        f"close ahead {kind}": not ended and not strange,
    }
    names = [f"after {kind}", f"ahead {_bucket(len(between), _DISTANCES)}", f"ahead strange {min(strange, 4)}"]
    return [*names, *(name for name, is_so in noticed.items() if is_so)]


def _line(text: str, one: Candidate) -> tuple[str, list[str]]:
    """Return how much the candidate's line looks like code, and the features of its place and of what follows."""
    line = text.rfind("\n", max(0, one.start - 200), one.start) + 1 or max(0, one.start - 200)
    stop = text.find("\n", one.end, one.end + 200)
    head, rest = text[line : one.start], text[one.end : stop if stop >= 0 else one.end + 200]
    names = [f"next {_following(rest)}"]
    if behind := WORDS.match(rest.lstrip(" \t")):
        names.append(f"next word {class_of(behind[0].lower())}")
    if not head.strip(" \t*_`\"'>-•"):
        names.append("line start")
        if not rest.strip(" \t*_`\"'.!"):
            names.append("line alone")
    elif head.rstrip()[-1:] in _SAYS and _SPEAKER.fullmatch(head):
        names.append("speaker")
    return f"code {min(len(_CODE_LINE.findall(head[-120:] + rest[:80])), 4)}", names


def _following(rest: str) -> str:
    rest = rest.lstrip("\"'`”»」』*’")
    if not rest.strip():
        return "end"
    if rest[0] in ".,;:)(/=|<>。，、（）":
        return rest[0]
    return "space" if rest[0].isspace() else "wide" if _is_wide(rest[0]) else "other"


def _is_wide(character: str) -> bool:
    return "\u3005" <= character <= "\ud7a3"


@functools.cache
def _users() -> frozenset[str]:
    return frozenset(map(key_of, vocabulary().users))


@functools.cache
def is_worded(key: str) -> bool:
    """Return whether the secret of a noun consists of words: a passphrase, an answer."""
    return any(key_of(word) in key for word in vocabulary().worded)


def _wide_class(bare: str) -> str:
    words = vocabulary()
    for name in ("tells", "leads", "about", "small"):
        if any(bare[-size:] in getattr(words, name) for size in (4, 3, 2, 1)):
            return name
    return "other"
