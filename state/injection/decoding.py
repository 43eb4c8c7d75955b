"""Decoding: a text folded to one spelling, and what is encoded in it (base64, hex, escapes, ROT13, leet)."""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator

from state.text.patterns import late_pattern
from state.text.words import compatible, stream_safe

_LEAST_ROOM = 4_096  # characters that are decoded of a short text
_AROUND = 160  # characters before and behind a word that is spelt in another way: no pattern looks further

_CONFUSABLES = str.maketrans("аеорсухіјѕһԁԛԝвкмнтгαορνεικτυ", "aeopcyxijshdqwbkmhtraopveiktu")
_WORD = late_pattern(r"\w+")
_LATIN, _GREEK_OR_CYRILLIC = late_pattern(r"[a-z]"), late_pattern("[\u0370-\u052f]")
_MARKS = late_pattern("[\u0300-\u036f]")
_SPACED_OUT = late_pattern(r"(?<!\S)(?:\w[ .*_-]){5,}\w(?!\S)")

_BASE64 = late_pattern(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}+={0,2}")
_BASE32 = late_pattern(r"\b[A-Z2-7]{24,}+={0,6}")
_HEX = late_pattern(r"(?:[0-9a-fA-F]{2}[\s:]?){16,}|(?:\\x[0-9a-fA-F]{2}){8,}")
_BINARY = late_pattern(r"(?:[01]{8}\s?){6,}")
_UNICODE_ESCAPES = late_pattern(r"(?:\\u[0-9a-fA-F]{4}){6,}")
_ROT13 = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)
# "the", "you", "and", "your", "all", "not", "to" and "is", turned by thirteen letters, and backwards.
_TURNED = late_pattern(r"\b(?:gur|lbh|naq|lbhe|nyy)\b|rot-?\s?13", re.IGNORECASE)
_BACKWARDS = late_pattern(r"\b(?:eht|uoy|dna|ruoy|lla|ton|resu)\b|\b(?:reverse[ds]?|backwards?)\b", re.IGNORECASE)
# A digit in the place of a letter, not one that counts (host12, p95, 3rd).
_LEET_WORD = late_pattern(r"\b\w{0,30}?[a-z][013457]{1,9}[a-z]\w{0,30}", re.IGNORECASE)
_ESCAPE = late_pattern(r"%[0-9A-Fa-f]{2}|&#\w{1,8};|&[A-Za-z]\w{1,30};")
_LEET = (str.maketrans("013457", "oieast"), str.maketrans("013457", "oleast"))


def folded(text: str) -> str:
    """Lower case, no accents, nothing invisible, look-alike letters of other scripts in Latin words as Latin."""
    shown = compatible(text).casefold()
    plain = unicodedata.normalize(
        "NFC", stream_safe(_MARKS.sub("", unicodedata.normalize("NFD", stream_safe(shown))))
    )
    latin = _WORD.sub(_in_one_script, plain) if _GREEK_OR_CYRILLIC.search(plain) else plain
    return _SPACED_OUT.sub(lambda match: re.sub(r"[ .*_-]", "", match.group()), latin)


def decoded(text: str) -> str | None:
    """What is encoded in the text, also what is encoded twice, one reading below the other; "" when nothing is.

    None when that is more than twice the text: then nobody can say what it says.
    """
    room = max(_LEAST_ROOM, 2 * len(text))
    plain, respelt = "\n".join(_runs(text)), "\n".join(_respelt(text))
    if len(plain) + len(respelt) > room:
        return None
    twice = [*_runs(f"{plain}\n{respelt}"), *_respelt(plain)]
    readings = "\n".join(one for one in (plain, respelt, *twice) if one)
    return readings if len(readings) <= room else None


def _runs(text: str) -> Iterator[str]:
    """What runs of characters stand for, each by itself; and what stands around escapes, with these read."""
    for match in _BASE64.finditer(text):
        blob = match.group().rstrip("=").replace("-", "+").replace("_", "/")
        yield from _readable(base64.b64decode(blob[: len(blob) - (len(blob) % 4 == 1)] + "=" * (-len(blob) % 4)))
    for match in _BASE32.finditer(text):
        blob = match.group().rstrip("=")
        try:
            yield from _readable(base64.b32decode(blob + "=" * (-len(blob) % 8)))
        except binascii.Error:  # a name in capitals
            continue
    for match in _HEX.finditer(text):
        yield from _readable(binascii.unhexlify(re.sub(r"\\x|[\s:]", "", match.group())))
    for match in _BINARY.finditer(text):
        digits = re.sub(r"\s", "", match.group())
        yield from _readable(bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits), 8)))
    for match in _UNICODE_ESCAPES.finditer(text):
        yield "".join(chr(int(code, 16)) for code in match.group().split("\\u")[1:])
    for around in _around(_ESCAPE, text):
        from urllib.parse import unquote  # slow to load, and seldom needed

        yield html.unescape(unquote(around))


def _respelt(text: str) -> Iterator[str]:
    """What stands around words that are spelt in another way, in the usual one."""
    for around in _around(_TURNED, text):
        yield around.translate(_ROT13)
    for around in _around(_BACKWARDS, text):
        yield around[::-1]
    if len(_LEET_WORD.findall(text)) > 2:
        for around in _around(_LEET_WORD, text):
            yield from (around.translate(table) for table in _LEET)


def _around(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The stretches of the text in which the pattern is found, with what stands before and behind, none twice."""
    start = end = 0
    for match in pattern.finditer(text):
        if match.start() - _AROUND > end and end:
            yield text[start:end]
        if match.start() - _AROUND > end or not end:
            start = max(end, match.start() - _AROUND)
        end = match.end() + _AROUND
    if end:
        yield text[start:end]


def _readable(raw: bytes) -> Iterator[str]:
    decoded = raw.decode("utf-8", "replace")
    if decoded and sum(char.isprintable() and char != "\ufffd" for char in decoded) >= 0.9 * len(decoded):
        yield decoded


def _in_one_script(match: re.Match[str]) -> str:
    word = match.group()
    mixed = _LATIN.search(word) and _GREEK_OR_CYRILLIC.search(word)
    return word.translate(_CONFUSABLES) if mixed else word
