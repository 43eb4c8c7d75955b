"""Shapes of keys and tokens, as data: gitleaks' rules, and our own for what they lack.

A rule is only tried if one of its keywords is in the text. The expressions run with RE2, in linear time, over the
text as ASCII: every other character becomes one "?", so that positions stay the same.
"""

import base64
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from state.secrets.languages import key_of, vocabulary
from state.secrets.value import NOTHING, UNUSUAL, is_placeholder, looks_drawn, strength
from state.text.patterns import late_pattern

FOLDER = Path(__file__).with_name("rules")
_BEGINNING = 3
_EDGES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
# An escape in quoted JSON (\n) or a percent-encoded character such as "=" (%3D) ends a token, too.
_EDGE = late_pattern(r"(?:\\[nrt]|%3[dD]|%2[0-9A-Fa-f]|%3[AaFf])$")
_REST_OF_TOKEN = late_pattern(r"[\w-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds secrets of one kind: see the head of rules/ours.tsv."""

    kind: str
    keywords: tuple[str, ...]
    source: str
    exact: bool = False
    look: str = ""
    entropy: float = 0.0
    group: int = 0

    @property
    def pattern(self) -> Any:  # noqa: ANN401 - google-re2 has no types
        """Return the expression, compiled when first needed."""
        return _compiled(self.source)

    @property
    def is_bare(self) -> bool:
        """Return whether the whole match is the secret."""
        return "(?P<secret" not in self.source


@functools.cache
def _compiled(source: str) -> Any:  # noqa: ANN401
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 24
    return re2.compile(source.encode(), options)


Rules = Callable[[], tuple[Rule, ...]]


@functools.cache
def ours() -> tuple[Rule, ...]:
    """Return our own rules. They come first: if two rules find the same text, the first one names it."""
    return tuple(_read("ours.tsv"))


@functools.cache
def every() -> tuple[Rule, ...]:
    """Return our rules, then those of gitleaks."""
    return (*ours(), *_read("gitleaks.tsv"))


def _read(name: str) -> Iterator[Rule]:
    for line in FOLDER.joinpath(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, keywords, options, source = line.split("\t")
            given = dict(one.partition("=")[::2] for one in options.split())
            yield Rule(
                kind,
                tuple(json.loads(keywords)),
                source,
                "exact" in given,
                given.get("look", ""),
                float(given.get("entropy", 0)),
                int(given.get("group", 0)),
            )


def shaped(text: str, lowered: str, rules: Rules) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each secret with a recognisable shape. `lowered` is the text in lower case."""
    content = text.encode("ascii", "replace")
    for rule in _met(lowered, rules):
        for match in rule.pattern.finditer(content):
            start, end = _span(rule, match)
            if start < 0 or not _stands_free(rule, text, start, end):
                continue
            if rule.is_bare and not rule.exact:  # include the rest of a longer token, but not a final full stop
                rest = _REST_OF_TOKEN.match(text, end)
                end = rest.end() if rest else end
                end -= text[end - 1] == "."
            secret = text[start:end]
            if not is_placeholder(secret) and _entropy(secret) >= rule.entropy and _looks(secret, rule.look):
                yield rule.kind, start, end


def _met(lowered: str, rules: Rules) -> Iterator[Rule]:
    """Yield the rules with a keyword in the text."""
    content, (beginnings, short) = lowered.encode("ascii", "replace"), _keywords(rules)
    # The first letters of most keywords do not occur in the text.
    begun = beginnings.keys() & set(zip(content, content[1:], content[2:], strict=False))
    there = {one for begin in begun for one in beginnings[begin] if one in lowered}
    there.update(one for one in short if one in lowered)
    yield from (rule for rule in rules() if not there.isdisjoint(rule.keywords))


@functools.cache
def _keywords(rules: Rules) -> tuple[dict[tuple[int, ...], list[str]], tuple[str, ...]]:
    """Return the keywords of these rules by their first three characters, and the shorter keywords."""
    beginnings: dict[tuple[int, ...], list[str]] = {}
    every = dict.fromkeys(keyword for rule in rules() for keyword in rule.keywords)
    for keyword in every:
        if len(keyword) >= _BEGINNING:
            beginnings.setdefault(tuple(keyword[:_BEGINNING].encode("ascii", "replace")), []).append(keyword)
    return beginnings, tuple(keyword for keyword in every if len(keyword) < _BEGINNING)


def _span(rule: Rule, match: Any) -> tuple[int, int]:  # noqa: ANN401
    if rule.group:
        return match.span(rule.group)  # type: ignore[no-any-return]
    for number in range(1, (match.re.groups or 0) + 1):
        start, end = match.span(number)
        if end > start >= 0 and (not match.re.groupindex or number in _secret_groups(match.re)):
            return start, end
    return match.span() if rule.is_bare else (-1, -1)


def _secret_groups(pattern: Any) -> frozenset[int]:  # noqa: ANN401
    return frozenset(number for name, number in pattern.groupindex.items() if name.startswith(b"secret"))


def _stands_free(rule: Rule, text: str, start: int, end: int) -> bool:
    """Return whether a token begins and ends at its boundaries, not inside a longer one."""
    if not rule.is_bare:
        return True
    if (
        start
        and text[start] in _EDGES
        and text[start - 1] in _EDGES
        and not _EDGE.search(text, max(0, start - 3), start)
    ):
        return False
    return not (rule.exact and end < len(text) and text[end] in _EDGES and text[end] != "_")


def _is_login(secret: str) -> bool:
    """Return whether this is base64 of user:password, or of SMTP's form of them."""
    try:
        content = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True).decode("utf-8")
    except ValueError:
        return False
    return (":" in content or "\0" in content) and all(one.isprintable() or one == "\0" for one in content)


def _entropy(secret: str) -> float:
    return -sum(n / len(secret) * math.log2(n / len(secret)) for n in Counter(secret).values())


def _is_unnamed(secret: str) -> bool:
    """Return whether a text is not the label of a form, which would name a secret or be about one."""
    words, parts = vocabulary(), re.findall(r"[^\W\d_]+", secret)
    about = sum(part.lower() in words.about for part in parts)
    return (not parts or 2 * about <= len(parts)) and not any(key_of(part) in words.named for part in parts)


def _is_token(secret: str, least: int) -> bool:
    """Return whether the longest run of letters and digits looks random and is no digest of a cache."""
    longest = max(_ALNUM.findall(secret), key=len, default="")
    return not _PUBLIC.search(secret) and (
        bool(_UUID.search(secret)) or (len(longest) >= least and looks_drawn(longest))
    )


_JUDGES: dict[str, Callable[[str], bool]] = {
    "basic": _is_login,
    "unnamed": _is_unnamed,
    "token": partial(_is_token, least=10),
    "tail": partial(_is_token, least=20),
}


def _looks(secret: str, look: str) -> bool:  # noqa: PLR0911 - one look after the other
    """Return whether a secret looks as its rule requires."""
    if not look:
        return True
    digit, letter = any(map(str.isdigit, secret)), any(map(str.isalpha, secret))
    if look == "chosen":
        return (digit or any(not one.isalnum() for one in secret[1:])) and strength(secret) > NOTHING
    if judge := _JUDGES.get(look):
        return judge(secret)
    if look == "cookie":
        value = secret.partition("=")[2]
        return len(value) >= 12 and any(
            looks_drawn(part) or strength(part) >= 3 for part in re.split(r"[=;\s]+", secret)
        )
    if look == "printed":
        return strength(secret) >= UNUSUAL or looks_drawn(secret)
    if look == "link":
        return (digit and looks_drawn(secret)) and "example" not in secret
    if look == "base32":
        return (digit and letter) or secret.isupper() or (len(secret.split()) > 3 and digit)
    if look == "session":
        return digit and letter and looks_drawn(secret) and not _UUID.fullmatch(secret)
    return (digit and letter) or looks_drawn(secret)


_ALNUM = late_pattern(r"[A-Za-z0-9]+")
_PUBLIC = late_pattern(
    r"(?i)(?:^|[_-])(?:cache|etag|sha\d*|md5|hash|commit|public|pub"
    r"|idempotency|foreign|page|cursor|partition|pk_(?:live|test))[_-]"
)
_UUID = late_pattern(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
