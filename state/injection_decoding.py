"""What a text says once it is read as it is meant: folded to one spelling, and decoded."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator

from state.words import visible

_MOST = 20  # encoded runs of a sort that are read

_CONFUSABLES = str.maketrans("аеорсухіјѕһԁԛԝвкмнтгαορνεικτυ", "aeopcyxijshdqwbkmhtraopveiktu")
_WORD = re.compile(r"\w+")
_LATIN, _GREEK_OR_CYRILLIC = re.compile(r"[a-z]"), re.compile("[\u0370-\u052f]")
_MARKS = re.compile("[\u0300-\u036f]")
_SPACED_OUT = re.compile(r"(?<!\S)(?:\w[ .*_-]){5,}\w(?!\S)")

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE32 = re.compile(r"\b[A-Z2-7]{24,}={0,6}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){16,}|(?:\\x[0-9a-fA-F]{2}){8,}")
_BINARY = re.compile(r"(?:[01]{8}\s?){6,}")
_UNICODE_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}){6,}")
_ROT13 = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)
# "the", "you", "and", "your", "all", "not", "to" and "is", turned by thirteen letters, and backwards.
_TURNED = re.compile(r"\b(?:gur|lbh|naq|lbhe|nyy)\b|rot-?\s?13", re.IGNORECASE)
_BACKWARDS = re.compile(r"\b(?:eht|uoy|dna|ruoy|lla|ton|resu)\b|\b(?:reverse[ds]?|backwards?)\b", re.IGNORECASE)
_LEET_WORD = re.compile(r"\b(?=\w*[a-z])\w*[013457]\w*\b", re.IGNORECASE)
_LEET = (str.maketrans("013457", "oieast"), str.maketrans("013457", "oleast"))


def folded(text: str) -> str:
    """Lower case, no accents, nothing invisible, look-alike letters of other scripts in Latin words as Latin."""
    shown = unicodedata.normalize("NFKC", visible(text)).casefold()
    plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", shown)))
    latin = _WORD.sub(_in_one_script, plain) if _GREEK_OR_CYRILLIC.search(plain) else plain
    return _SPACED_OUT.sub(lambda match: re.sub(r"[ .*_-]", "", match.group()), latin)


def decodings(text: str, depth: int = 2) -> Iterator[str]:
    """Readings of a text that holds encoded words; what is encoded twice is decoded twice."""
    for decoded in _decoded(text):
        yield decoded
        if depth > 1:
            yield from decodings(decoded, depth - 1)


def _decoded(text: str) -> Iterator[str]:
    for match in list(_BASE64.finditer(text))[:_MOST]:
        blob = match.group().rstrip("=").replace("-", "+").replace("_", "/")
        yield from _readable(base64.b64decode(blob[: len(blob) - (len(blob) % 4 == 1)] + "=" * (-len(blob) % 4)))
    for match in list(_BASE32.finditer(text))[:_MOST]:
        blob = match.group().rstrip("=")
        try:
            yield from _readable(base64.b32decode(blob + "=" * (-len(blob) % 8)))
        except binascii.Error:  # a name in capitals
            continue
    for match in list(_HEX.finditer(text))[:_MOST]:
        yield from _readable(binascii.unhexlify(re.sub(r"\\x|[\s:]", "", match.group())))
    for match in list(_BINARY.finditer(text))[:_MOST]:
        digits = re.sub(r"\s", "", match.group())
        yield from _readable(int(digits, 2).to_bytes(len(digits) // 8, "big"))
    for match in list(_UNICODE_ESCAPES.finditer(text))[:_MOST]:
        yield "".join(chr(int(code, 16)) for code in match.group().split("\\u")[1:])
    yield from _respelt(text)


def _respelt(text: str) -> Iterator[str]:
    if "%" in text:
        from urllib.parse import unquote  # slow to load, and seldom needed

        yield unquote(text)
    if "&#" in text:
        import html

        yield html.unescape(text)
    if _TURNED.search(text):
        yield text.translate(_ROT13)
    if _BACKWARDS.search(text):
        yield text[::-1]
    if len(_LEET_WORD.findall(text)) > 2:
        for table in _LEET:
            yield text.translate(table)


def _readable(raw: bytes) -> Iterator[str]:
    decoded = raw.decode("utf-8", "replace")
    if decoded and sum(char.isprintable() and char != "\ufffd" for char in decoded) >= 0.9 * len(decoded):
        yield decoded


def _in_one_script(match: re.Match[str]) -> str:
    word = match.group()
    mixed = _LATIN.search(word) and _GREEK_OR_CYRILLIC.search(word)
    return word.translate(_CONFUSABLES) if mixed else word
