"""Spelling: alternative spellings of a text, with positions, to find a text that is spelt differently.

look-alikes   letters and digits of other scripts that look like Latin ones        Аdа ٤٧١١
folded        letters and digits alone: joined, spaced out, hyphenated             VaultCode47  v a u l t  vau-lt
unescaped     percent encoding, HTML entities, and tags, which separate words like spaces
encoded       base64
shorter       without one word
"""

import base64
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from state.text.words import stop_words, visible

_PAIRS = """
аa вb сc ԁd еe һh нh іi јj кk ӏl мm пn оo рp ԛq гr ѕs тt цu ѵv ԝw ѡw хx уy үy
АA ВB СC ЕE НH ІI ЈJ КK МM ОO РP ЅS ТT ХX УY ҮY
αa βb γy εe ηn ιi κk νv οo ρp σo τt υu χx ωw ϲc ϳj
ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX
ıi ɑa ɡg ɩi ʏy ᴀa ᴄc ᴅd ᴇe ᴊj ᴋk ᴍm ᴏo ᴘp ᴛt ᴜu ᴠv ᴡw ᴢz ꜱs օo ոn սu ցg հh
"""
_LOOK_ALIKES = {ord(pair[0]): pair[1] for pair in _PAIRS.split()}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}(?:\r?\n[A-Za-z0-9+/_-]{4,})*={0,2}")
# ASCII that is neither letter nor digit.
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_MARKS = range(0x300, 0x370)
# Padding that is invisible and ends no word: an escape is longer than the character it stands for.
_NOTHING = "\u200b"
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG = re.compile(r"<[!/?A-Za-z][^<>]{0,500}>")
_LEAST_WORDS, _MOST_WORDS = 4, 16
_LEAST_CONTENT = 3


def folded(text: str) -> str:
    """Return only the letters and digits of a text, folded."""
    if text.isascii():
        return text.encode("ascii").translate(None, _SIGNS).decode("ascii").lower()
    return text.translate({ord(sign): folded_sign(sign) for sign in set(text)})


def unescaped(text: str) -> str:
    """Return the text with its escapes decoded and padded to the same length; unchanged if nothing is escaped."""
    if "%" in text:
        text = _PERCENT.sub(_percent, text)
    if "&" in text:
        text = _ENTITY.sub(_entity, text)
    if "<" in text:
        text = _TAG.sub(lambda tag: " " * len(tag.group()), text)
    return text


def _percent(escape: re.Match[str]) -> str:
    try:
        read = unquote_to_bytes(escape.group()).decode()
    except UnicodeDecodeError:
        return escape.group()
    return "".join(char.ljust(3 * len(char.encode()), _NOTHING) for char in read)


def _entity(escape: re.Match[str]) -> str:
    read = html.unescape(escape.group())
    return read.ljust(len(escape.group()), _NOTHING)


def encoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each base64 passage of the text: start, end, and the decoded text."""
    for match in _BASE64.finditer(text):
        blob = re.sub(r"\s|=", "", match.group()).replace("-", "+").replace("_", "/")
        blob = blob[: len(blob) - (len(blob) % 4 == 1)]
        try:
            said = base64.b64decode(blob + "=" * (-len(blob) % 4)).decode()
        except ValueError:  # a long word, a path, a digest
            continue
        yield match.start(), match.end(), said


def shorter(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the variants of a short text without one word that still say whose fact it is, and which one.

    The first and last word, and any word with a digit, identify the fact: they may be missing only if they are stop
    words or, for the first and last, if a number remains.
    """
    if not _LEAST_WORDS <= len(words) <= _MOST_WORDS:
        return ()
    found = []
    for at, word in enumerate(words):
        owner = words[at + 1 : at + 2] == ("s",)  # Ada's
        left = (*words[:at], *words[at + 1 + owner :])
        content = [one for one in left if one not in stop_words()]
        has_number = any(one.isdigit() and len(one) > 2 for one in left)
        inside = 0 < at < len(words) - 1
        if word in stop_words():
            goes = len(content) >= _LEAST_CONTENT - 1
        else:
            goes = not any(map(str.isdigit, word)) and len(content) >= _LEAST_CONTENT - has_number
            goes = goes and (inside or has_number)
        if goes:
            found.append(left)
    return tuple(dict.fromkeys(found))


def is_telling(words: Sequence[str]) -> bool:
    """Return whether a short text says so much that one more word in its middle leaves it the same fact."""
    content = sum(word not in stop_words() for word in words)
    return _LEAST_WORDS - 1 <= len(words) <= _MOST_WORDS and content >= _LEAST_CONTENT - 1


@lru_cache(maxsize=65_536)  # enough for the characters of all scripts
def folded_sign(sign: str) -> str:
    """Return a character as the letters and digits to compare; "" for any other character."""
    shown = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", visible(sign)).casefold())
    shown = "".join(
        str(unicodedata.decimal(one)) if one.isdecimal() else one
        for one in shown.translate(_LOOK_ALIKES)
        if ord(one) not in _MARKS and unicodedata.category(one)[0] in "LNM"
    )
    return shown.lower()
