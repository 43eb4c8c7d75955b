"""Logins as pairs: `ada@a.test / Tr0ub4dor`, `ops:Tr0ub4dor` near "accounts", `http://ops:Tr0ub4dor@a.test`."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.told.mentions import Mention
from state.secrets.value import CHOSEN, UNUSUAL, is_code, is_placeholder, looks_drawn, strength
from state.text.patterns import late_pattern

_WITH = r"(?: ?[/|] ?|, ?|、|，| (?:with|mit|avec|con|com|с|und|and|et|y|e|и|pw|pass) )"
_BY_MAIL = late_pattern(
    rf"[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,5}}{_WITH}(?P<secret>[^\s,;|]{{5,64}})"
)
_HEAD = r"(?<![^\s\"'`(])(?P<user>[A-Za-z][\w.-]{1,40}|\d{3}[\d ]{3,12}\d)"
_TAIL = r"(?P<secret>[^\s,;|/]{5,64})(?=[\s,;.)]|$|[\u3000-\u9fff])"
_SLASHED, _COLONED = late_pattern(_HEAD + r"(?: / |/)" + _TAIL), late_pattern(_HEAD + ": ?" + _TAIL)
_ROOT = late_pattern(
    r"(?<![^\s\"'`(])(?:admin|root|administrator|sa|postgres|pi)(?::| / )(?P<secret>[^\s,;|/:]{5,64})"
)
_BEFORE, _AFTER = 60, 90
_DIGEST = late_pattern(r"[0-9a-f]{32,}")
_TRAILING = ".,;:)]}\"'`*"
_ADDRESS = late_pattern(r"://[^\s:/@\"'<>]{0,255}:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>]{1,512})")
# A token in place of the user, as in a git URL.
_TOKEN = late_pattern(r"://([\w-]{20,255})(?::(?:x-oauth-basic|)?)?@")
_HOST = late_pattern(r"(?:\[[0-9A-Fa-f:.%]{2,60}\]|[A-Za-z0-9_][\w.:-]{0,255})(?=[:/?#,;)\s\"'`*\\]|$)|[${<%]")


def pairs(text: str, found: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each password in a pair; without a mail address, a noun must be on the same line."""
    if "@" in text:
        for match in _BY_MAIL.finditer(text):
            yield from _secret(match, UNUSUAL)
    nouns = [one for one in found if one.noun in {Noun.LOGIN, Noun.PASSWORD}]
    ends = [one.end for one in nouns]
    for match in _ROOT.finditer(text):
        yield from _secret(match, UNUSUAL)
    for match in chain(_SLASHED.finditer(text), _COLONED.finditer(text)) if nouns else ():
        near = bisect_left(ends, match.start() - _AFTER)
        if near == len(nouns) or nouns[near].start > match.end() + _BEFORE:
            continue
        if match["user"].count(".") > 1 and match.start() <= nouns[near].start < match.end("user"):
            continue  # com.shop.passwords:core is the name of a package
        between = text[min(match.start(), nouns[near].start) : max(match.end(), nouns[near].end)]
        if "\n" not in between and key_of(match["user"]) not in vocabulary().nouns:
            yield from _secret(match, UNUSUAL if " / " in match[0] else CHOSEN)


def _secret(match: re.Match[str], least: int) -> Iterator[tuple[int, int]]:
    word = match["secret"].rstrip(_TRAILING)
    if any(map(str.isalpha, word)) and strength(word) >= least and not is_code(word) and not _DIGEST.fullmatch(word):
        yield match.start("secret"), match.start("secret") + len(word)


def addresses(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each password or token in a URL."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        at = match[1].rfind("@")
        for _ in range(8):
            if at <= 0 or _HOST.match(text, match.start(1) + at + 1):
                break
            at = match[1].rfind("@", 0, at)
        if at > 0 and not is_placeholder(match[1][:at]):
            yield "password in an address", match.start(1), match.start(1) + at
    for match in _TOKEN.finditer(text):
        if looks_drawn(match[1]):
            yield "token in an address", *match.span(1)
