"""Secrets that are known by the nouns beside them: assigned to a name, or told in a sentence."""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from state.secrets.assigned import (
    BARE_KEYS,
    end_of,
    is_about,
    is_elsewhere,
    is_secret,
    name_end,
    name_start,
    value_of,
)
from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.mentions import Mention, mentions
from state.secrets.pairs import pairs
from state.secrets.series import codes, phrase
from state.secrets.tables import tables
from state.secrets.told import Place, pins, told

MARK = "[redacted: "
_KINDS = {
    Noun.PASSWORD: "password",
    Noun.PIN: "pin",
    Noun.CODE: "pin",
    Noun.KEY: "secret",
    Noun.LOGIN: "password",
    Noun.PHRASE: "seed phrase",
    Noun.CODES: "recovery code",
}
_NEXT_WORDS = re.compile(r"[\s_-]{0,2}([^\W\d_]+)(?:[\s_-]([^\W\d_]+))?")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{1,12}")
_NEAR = 45
_LABELLED = re.compile(r"[\"'`*)\]]{0,3}\s?(?::|=|is\b|→)")
_OF = re.compile(r"[ \t][\w \t'’]*[ \t]")
_WIRELESS = ("wifi", "wlan", "ssid", "hotspot", "无线", "無線")
_RUN = 200
_DOZEN = 36  # characters that twelve words have at least


def in_context(text: str) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each secret that stands beside what it is called."""
    found = list(mentions(text))
    for start, end in pairs(text, found):
        yield "password", start, end
    if found:
        yield from tables(text)
    done = floor = 0
    judged = _Once()
    for number, mention in enumerate(found):
        if mention.start < done or _is_mark(text, mention.start):
            continue
        limit = found[number + 1].start if number + 1 < len(found) else len(text)
        stop = name_end(text, mention.end)
        owner = _owner(text, found[number - 1], mention) if number else mention
        about = _is_talk(text, mention, stop)
        place = Place(owner.noun, owner.start, stop, min(floor, owner.start), limit, about)
        floor = stop
        for start, end in _of(text, mention, place, found, number, judged):
            yield _KINDS[place.noun], start, end
            done = floor = max(done, end)


class _Once:
    """Keeps a run of characters without spaces from being judged from each noun in it."""

    def __init__(self) -> None:
        self._end = 0

    def __call__(self, start: int, size: int) -> bool:
        """Whether what begins here lies within what was judged before."""
        if start < self._end:
            return True
        self._end = start + size if size >= _RUN else 0
        return False


def _of(  # noqa: C901, PLR0911, PLR0912 - one kind of noun after the other
    text: str, mention: Mention, place: Place, found: Sequence[Mention], number: int, judged: _Once
) -> Iterator[tuple[int, int]]:
    noun = place.noun
    if noun is Noun.PHRASE:
        following = next((one.start for one in found[number + 1 : number + 8] if one.noun is Noun.PHRASE), len(text))
        if following - mention.end >= _DOZEN:
            yield from phrase(text, mention.end)
        return
    if noun is Noun.CODES:
        yield from codes(text, mention.end, len(text))
        return
    if noun is Noun.CODE:
        if mention.key in _locks() or _is_lock(text, mention):
            yield from pins(text, place, mention.key)
        return
    if noun is Noun.PIN:
        some = list(pins(text, place, mention.key))
        yield from some
        if some or place.about or mention.key == "pin":
            return
    elif noun is Noun.KEY and (place.about or _is_part(text, mention)):
        return
    elif not place.about:
        value = value_of(text, mention.start, place.end)
        if value and judged(value.start, len(value.text)):
            return
        if value and is_secret(value, noun, text[name_start(text, mention.start) : place.end], mention.key):
            yield value.start, end_of(value, text)
            return
        if value and is_elsewhere(value):
            return
    if mention.key == "pass" and not _LABELLED.match(text, place.end):  # a verb, or a word of Python
        return
    yield from told(text, place)


def _owner(text: str, before: Mention, mention: Mention) -> Mention:
    """The noun that the value behind a mention is of: "the password of the key", "WLAN …, key" are of a password."""
    between = text[before.end : mention.start]
    if len(between) <= _NEAR and mention.noun in {Noun.KEY, Noun.LOGIN, Noun.CODE}:
        if (
            before.noun is Noun.PASSWORD
            and _OF.fullmatch(between)
            and between.split()[0].lower() in vocabulary().small
        ):
            return before
        if mention.key in BARE_KEYS and any(word in before.key for word in _WIRELESS):
            return replace(mention, noun=Noun.PASSWORD)
    return mention


def _is_part(text: str, mention: Mention) -> bool:
    """Whether a bare "key" is the part of a longer name, as in the name of a package."""
    return mention.key in BARE_KEYS and text[mention.start - 1 : mention.start] in "-/@" and mention.start > 0


def _is_mark(text: str, start: int) -> bool:
    """Whether a noun is the kind of what was redacted before."""
    mark = text.rfind(MARK, max(0, start - 40), start)
    return mark >= 0 and "]" not in text[mark:start]


def _is_talk(text: str, mention: Mention, stop: int) -> bool:
    """Whether what follows the noun says that it is spoken about, and not told."""
    if is_about(text, mention.start, mention.end, stop):
        return True
    about = vocabulary().about
    if ideographs := _IDEOGRAPHS.match(text, stop):
        return bool(_ideographs("about").search(ideographs[0]))
    following = _NEXT_WORDS.match(text, stop)
    return bool(following) and any((word or "").lower() in about for word in following.groups())  # type: ignore[union-attr]


def _is_lock(text: str, mention: Mention) -> bool:
    """Whether a door, a safe or the like is spoken of beside a code."""
    around = text[max(0, mention.start - _NEAR) : mention.end + _NEAR].lower()
    locked = vocabulary().locked
    return any(word in locked for word in re.findall(r"[^\W\d_]+", around)) or bool(
        _ideographs("locked").search(around)
    )


@functools.cache
def _locks() -> frozenset[str]:
    return frozenset(map(key_of, vocabulary().locked))


@functools.cache
def _ideographs(row: str) -> re.Pattern[str]:
    """The words of a row that are written without spaces around them."""
    words = (
        word for word in getattr(vocabulary(), row) if _IDEOGRAPHS.match(word) and (len(word) > 1 or row == "locked")
    )
    return re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)))
