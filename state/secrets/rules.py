"""Shapes of keys and tokens, as data: gitleaks' rules, and our own for what they lack.

A rule is tried only when one of its keywords stands in the text. The expressions run with RE2, in linear time, over
the text as ASCII: every other character counts as one "?", so that places stay the same.
"""

import base64
import functools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from state.secrets.languages import key_of, vocabulary
from state.secrets.value import NOTHING, UNUSUAL, is_placeholder, looks_drawn, strength

_OURS, _TOKENS, _THEIRS = "shapes.toml", "tokens.toml", "gitleaks.toml"
# Of gitleaks: what context decides better here, what is public, and what takes every git hash for a token.
_UNUSED = re.compile(
    r"generic-api-key|sourcegraph-.*|.*-(?:client|access)-id|.*-pub(?:lic)?-.*|hashicorp-tf-password|mapbox-api-token|curl-auth-.*"
)
# Rules that know a token only by a word before it; any word of its length would do.
_BESIDE = re.compile(r"(?:\(\?i\))?\[\\w\.-\]\{0,50\}\?")
# The end of a token in gitleaks' rules: in a sentence a full stop, a bracket, a letter of another script ends it too.
_THEIR_END = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"
_OUR_END = r"(?:[^A-Za-z0-9]|$)"

_EDGES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
# An escape inside quoted JSON (\n) or an encoded "=" (%3D) is an edge as well.
_EDGE = re.compile(r"(?:\\[nrt]|%3[dD]|%2[0-9A-Fa-f]|%3[AaFf])$")
_REST_OF_TOKEN = re.compile(r"[\w-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds secrets of a kind: see the head of shapes.toml. `entropy`: its bits a character, at least."""

    kind: str
    keywords: tuple[str, ...]
    source: str
    exact: bool = False
    look: str = ""
    entropy: float = 0.0
    group: int = 0
    bare: bool = True

    @property
    def pattern(self) -> Any:  # noqa: ANN401 - google-re2 has no types
        """Compiled when a keyword was met."""
        return _compiled(self.source)


@functools.cache
def _compiled(source: str) -> Any:  # noqa: ANN401
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 24
    return re2.compile(source.encode(), options)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(files("state.secrets").joinpath("rules", name).read_text(encoding="utf-8"))


@functools.cache
def ours() -> tuple[Rule, ...]:
    """Our own. They come first: of two that find the same text the first one names it."""
    tokens = ((kind, row.split(" ", 1)) for kind, rows in _load(_TOKENS)["tokens"].items() for row in rows)
    return (*(_token(kind, prefix, rest) for kind, (prefix, rest) in tokens), *map(_own, _load(_OURS)["rules"]))


def _own(row: dict[str, Any]) -> Rule:
    return Rule(
        kind=row["kind"],
        keywords=tuple(row["keywords"]),
        source=row["regex"],
        exact=row.get("exact", False),
        look=row.get("look", ""),
        bare="(?P<secret" not in row["regex"],
    )


def _token(kind: str, prefix: str, rest: str) -> Rule:
    return Rule(kind=kind, keywords=(prefix.lower(),), source=re.escape(prefix) + rest, look="token")


@functools.cache
def theirs() -> tuple[Rule, ...]:
    """Those of gitleaks."""
    return tuple(_foreign())


def _foreign() -> Iterator[Rule]:
    for row in _load(_THEIRS)["rules"]:
        if "regex" not in row or _UNUSED.fullmatch(row["id"]):
            continue
        source = row["regex"].replace(_THEIR_END, _OUR_END)
        yield Rule(
            kind=row["id"].replace("-", " "),
            keywords=tuple(row.get("keywords", ("",))),
            source=source,
            look="drawn" if _BESIDE.match(source) else "",
            entropy=float(row.get("entropy", 0)),
            group=row.get("secretGroup", 0),
        )


def shaped(text: str, lowered: str, rules: Iterable[Rule]) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each secret with a shape of its own. `lowered` is the text in lower case."""
    content = text.encode("ascii", "replace")
    for rule in rules:
        if not any(keyword in lowered for keyword in rule.keywords):
            continue
        for match in rule.pattern.finditer(content):
            start, end = _span(rule, match)
            if start < 0 or not _stands_free(rule, text, start, end):
                continue
            if rule.bare and not rule.exact:  # an over-long token goes whole, the full stop of its sentence stays
                rest = _REST_OF_TOKEN.match(text, end)
                end = rest.end() if rest else end
                end -= text[end - 1] == "."
            secret = text[start:end]
            if not is_placeholder(secret) and _entropy(secret) >= rule.entropy and _looks(secret, rule.look):
                yield rule.kind, start, end


def _span(rule: Rule, match: Any) -> tuple[int, int]:  # noqa: ANN401
    if rule.group:
        return match.span(rule.group)  # type: ignore[no-any-return]
    for number in range(1, (match.re.groups or 0) + 1):
        start, end = match.span(number)
        if end > start >= 0 and (not match.re.groupindex or number in _secret_groups(match.re)):
            return start, end
    return match.span() if rule.bare else (-1, -1)


def _secret_groups(pattern: Any) -> frozenset[int]:  # noqa: ANN401
    return frozenset(number for name, number in pattern.groupindex.items() if name.startswith(b"secret"))


def _stands_free(rule: Rule, text: str, start: int, end: int) -> bool:
    """Whether a token begins and ends where it seems to."""
    if not rule.bare:
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
    """Whether this is base64 of user:password, or of what SMTP makes of them."""
    try:
        content = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True).decode("utf-8")
    except ValueError:
        return False
    return (":" in content or "\0" in content) and all(one.isprintable() or one == "\0" for one in content)


def _entropy(secret: str) -> float:
    return -sum(n / len(secret) * math.log2(n / len(secret)) for n in Counter(secret).values())


def _is_unnamed(secret: str) -> bool:
    """Whether a text is no label of a form, which would name a secret or speak about one."""
    words, parts = vocabulary(), re.findall(r"[^\W\d_]+", secret)
    about = sum(part.lower() in words.about for part in parts)
    return (not parts or 2 * about <= len(parts)) and not any(key_of(part) in words.named for part in parts)


def _is_token(secret: str, least: int) -> bool:
    """Whether the longest run of letters and digits was drawn, and is no digest that a cache is known by."""
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
    """Whether a secret looks as its rule asks for."""
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


_ALNUM = re.compile(r"[A-Za-z0-9]+")
_PUBLIC = re.compile(
    r"(?i)(?:^|[_-])(?:cache|etag|sha\d*|md5|hash|commit|public|pub"
    r"|idempotency|foreign|page|cursor|partition|pk_(?:live|test))[_-]"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
