"""Secrets that are known by their name: `DB_PASSWORD=…`, `"api_key": "…"`, `--token …`, "the password is …".

What stands behind such a name is judged: a call, a type, a path, a placeholder or a plain word is no secret. Names of
passwords take anything that looks chosen; names of keys and tokens only what looks drawn at random.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from state.commonplace import COMMONPLACE
from state.secret_shapes import is_placeholder

MARK = "[redacted: "
_HINTS = ("pass", "pwd", "secret", "token", "key", "credential", "contrase", "wort", "pw", "psk", "mot de")
_CHOSEN = (
    r"pass(?:word|wd|phrase|code)|(?<![a-z])pwd?(?![a-z])|(?<=_)pass(?![a-z])|(?<![a-z])psk(?![a-z])"
    r"|passwort|kennwort|contrase[nñ]a|mot de passe"
)
_KEY = (
    r"secret|token|credential|api[_ -]?key|(?:access|auth|private|account|admin|webhook|hmac|bot|app|write"
    r"|shared[_ -]?access|client|encryption|signing|master|license|service|session|storage|deploy|secret)"
    r"[_ -]?key(?:-data)?"
)
_NAME = re.compile(rf"(?P<password>{_CHOSEN})|(?:{_KEY})", re.IGNORECASE)
_TAIL = re.compile(r"s?(?:[_-]?[A-Za-z0-9]{1,30}){0,3}")
# `password_hash`, `tokenizer`, `token_count`, `secret_name` are about the secret, not it.
_ABOUT = re.compile(
    r"s?[_-]?(?:hash|count|limit|length|len|type|name|path|file|url|uri|field|label|hint|policy|rules?|reset|min|max"
    r"|size|budget|usage|expir|ttl|at$|arn|ref|index|i[sz]e|i[sz]|less|ring|manager|prefix|version|format|provider|class"
    r"|store|required|strength|prompt|placeholder|input|error|valid|check|used|per|in$|out$|id$|ids$)",
    re.IGNORECASE,
)
_BEFORE_ABOUT = re.compile(
    r"(?<![a-z])(?:next|page|continuation|cancel\w*|pad|eos|bos|unk|mask|sep|special|stop|max|min|num|total"
    r"|prompt|completion|input|output|public|cache|primary|foreign)[_ -]?$",
    re.IGNORECASE,
)

_ASSIGN = re.compile(
    r"(?:[\\\"'\])`*]{0,9}\s{0,4}(?::=|=>|->|→|={1,3}|!=|:(?!:))|\\{0,7}[\"']\s{1,4}value\s?=)"
    r"\s{0,4}(?:\*{2}\s{1,2})?"
)
_CELL = re.compile(r"[*`]{0,2} {1,20}\| {1,20}(?=\S)")
_XML = re.compile(r">(?=[^\s<>]{4,400}</)")
_FLAG = re.compile(r"[ =]{1,2}")
_CALL = re.compile(r"\((?=\\{0,7}[\"'])")
_LISTED = re.compile(r"\\{0,7}[\"'],\s{0,2}(?=\\{0,7}[\"'])")
_SAYS = re.compile(
    r"(?:s?[ \t](?:for|of|to|on|in|at|für|de|del|du|pour|der|des)[ \t][^\n:=.;\"]{1,60}?)?"
    r"(?::[ \t]|[ \t](?:→|->)[ \t]|(?:['’]s|[ \t](?:is|was|=|ist|lautet|es|est|è|é))[ \t]{1,2})"
    r"(?:now |still |set to |just )?",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t](?:(?:from|to|with|as)[ \t])?(?=\S)", re.IGNORECASE)
_ANOTHER = re.compile(r"[\"'`]?,?[ \t](?:to|or|and|then)[ \t]", re.IGNORECASE)
_BONDS = (
    (_ASSIGN, "assigned"),
    (_FLAG, "flag"),
    (_CALL, "assigned"),
    (_LISTED, "listed"),
    (_CELL, "said"),
    (_XML, "assigned"),
    (_SAYS, "said"),
    (_SPACE, "beside"),
)
_OPENING = re.compile(r"\\{0,7}[\"'`]{1,3}|\*{1,2}(?=\S)")
_SPOKEN = re.compile(r"[a-z]{3,12}(?: [a-z]{3,12}){3,11}(?=[.!]?\s{0,2}(?:$|\n|\r|\\|[\"'`]))")
_BARE = re.compile(r"[^\s\"'`<>]{1,4096}")
_TYPE = re.compile(r"[A-Z][A-Za-z]{1,40}(?:\[[^\]\n]{1,80}\])? = ")
_NEXT_FIELD = re.compile(r"[;,&](?=\s|$|[\w.-]{1,40}\s?[=:])|;|\\[nrt]|&amp;")
_TRAILING = ".,;:!?)]}*\\"

_CALLS = re.compile(r"[\w.$]*[A-Za-z_]\w*[(\[]")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::)[A-Za-z_$][\w$]*)+")
_NUMBERED = re.compile(r"[A-Za-z]+\d{1,2}")
# "velvet.quartz34" was typed as a password; `self.password2` is a field.
_TYPED = re.compile(r"\d{2,4}$")
_PATH = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}://|sha\d{3}[:-]|data:|arn:")
# base64, SHA-256, OAuth2, v1.2, 2FA, 8-character: words with digits.
_TECHNICAL = re.compile(
    r"(?:base|sha|md|utf|aes|rsa|oauth|http|ipv|tls|ssl|bcrypt|argon|hmac|rfc|iso|hs|rs|es|ec|oidc|saml|log|web|node"
    r"|python|py|ubuntu|postgres|mysql|v|vault|level|step|phase|part|type|day|week|item|line|page|user|admin|test|option"
    r"|version)[ _-]?\d[\w.-]*|\d[\d.,x-]*(?:[ _-]?[a-z]{1,12})?|[a-z]{1,4}\d",
    re.IGNORECASE,
)
# How forms are checked: required|string|min:8.
_RULES = re.compile(r"[a-z]{2,}(?:\|[a-z]{2,}(?::[\w,]+)?)+")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
# CamelCase, as names of types and variables are: a run of capitals, or capitals with two small letters behind each.
_CAMEL = re.compile(r"(?=(?:[^a-z]*[a-z]{2,}){2})[a-z]*(?:[A-Z]\d{0,2}|[A-Z][a-z]{2,}\d{0,2})+(?:\[.*)?")
_ABOUT_ITSELF = re.compile(r"[a-z]+(?:_[a-z]+)+")
_SYMBOL = re.compile(r"[!@#$%^&*+=?~|{}§€£]")
_WORDS = re.compile(r"[a-z]{3,12}(?:[ -][a-z]{3,12}){3,11}")
_COMMON_WORDS = """
the and for not with your must please enter this that are was has have use from into when only
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class _Value:
    """What stands behind a name.

    `form`: how it is tied to the name; `quote`: what encloses it; `spoken`: whole words;
    `typed`: the type of what is assigned behind it.
    """

    text: str
    start: int
    quote: str
    form: str
    spoken: bool = False
    typed: bool = False


def named_secrets(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each secret behind a name. `lowered` is the text in lower case."""
    if not any(hint in lowered for hint in _HINTS):
        return
    at = 0
    while name := _NAME.search(text, at):
        at = name.end()
        value = _value(text, name)
        while value and value.text and _is_secret(value, name):
            at = value.start + len(value.text)
            yield ("password" if name["password"] else "secret"), value.start, at
            another = _ANOTHER.match(text, at)
            value = _read(text, another.end(), "beside") if another else None


def _value(text: str, name: re.Match[str]) -> _Value | None:
    """The value that belongs to a name: the first form of a bond that fits decides."""
    mark = text.rfind(MARK, max(0, name.start() - 40), name.start())
    if mark >= 0 and "]" not in text[mark : name.start()]:
        return None  # the kind of what was redacted before
    tail = _TAIL.match(text, name.end())
    ending = tail[0] if tail else ""
    before = text[max(0, name.start() - 24) : name.start()]
    about = _ABOUT.match(ending) and ending.lower() not in ("_id", "_access_key")
    if about or _BEFORE_ABOUT.search(before):
        return None
    flag = re.search(r"(?:^|\s)--?[\w-]*$", before)
    for bond, form in _BONDS:
        if (form != "flag" or flag) and (match := bond.match(text, name.end() + len(ending))):
            return _read(text, match.end(), form)
    return None


def _read(text: str, at: int, form: str) -> _Value:
    """The value at an offset: up to its closing quote on the same line, else the bare word without punctuation."""
    if opening := _OPENING.match(text, at):
        start = opening.end()
        end = text.find(opening[0], start, start + 4096)
        if end >= 0 and "\n" not in text[start:end]:
            return _Value(text[start:end], start, opening[0], form)
        at = start
    if form in {"assigned", "said"} and (words := _SPOKEN.match(text, at)):
        return _Value(words[0], at, "", form, spoken=True)
    bare = _BARE.match(text, at)
    word = bare[0] if bare else ""
    if more := _NEXT_FIELD.search(word):
        word = word[: more.start()]
    return _Value(word.rstrip(_TRAILING), at, "", form, typed=bool(_TYPE.match(text, at)))


def _is_secret(value: _Value, name: re.Match[str]) -> bool:
    text = value.text
    if is_placeholder(text) or len(text) < 4 or _is_reference(value):
        return False
    if name["password"]:
        return _is_password(value, shouted=name[0].isupper())
    long = len(text) >= (16 if value.form == "beside" else 12)
    return long and not any(character.isspace() for character in text) and looks_random(text)


def _is_reference(value: _Value) -> bool:
    """Whether the value only says where the secret is: a path, an address, a call, a field, a type."""
    text = value.text
    if _RULES.fullmatch(text):
        return True
    if _PATH.match(text):
        return not any(looks_random(part) for part in text.split("/"))
    if value.quote:
        return False
    if value.typed:
        return True
    dotted = _DOTTED.fullmatch(text) and not _TYPED.search(text)
    return bool(_CALLS.match(text)) or (bool(dotted) and not looks_random(text))


def _is_password(value: _Value, *, shouted: bool) -> bool:
    """Whether someone chose this as a password. `shouted`: the name is in capitals, as in a file of settings."""
    text = value.text
    if _WORDS.fullmatch(text) and (value.quote or value.spoken or text.count("-") >= 3):
        return _are_drawn(re.split("[ -]", text))
    if any(character.isspace() for character in text):
        return False
    if value.form not in {"beside", "said", "listed"} and (value.quote or shouted or value.form == "flag"):
        plain = text.isalpha() and text.islower()
        if (plain and value.form == "flag") or (_ABOUT_ITSELF.fullmatch(text) and _NAME.search(text)):
            return False
        return len(text) >= (8 if plain and not shouted else 5)
    return not _TECHNICAL.fullmatch(text) and _looks_chosen(text, value.form)


def _looks_chosen(text: str, form: str) -> bool:
    """Whether nothing but its look tells that a bare word is a password."""
    digit = any(character.isdigit() for character in text)
    letter = any(character.isalpha() for character in text)
    symbol = bool(_SYMBOL.search(text[1:]))
    if form == "beside":  # "the password Tr0ub4dor&3 works"
        chosen = symbol or text.isalnum() or text.count("-") >= 3 or looks_random(text)
        return len(text) >= 6 and letter and digit and chosen
    if form == "listed":  # ("password", "Tr0ub4dor&3")
        return len(text) >= 8 and letter and digit and not _NUMBERED.fullmatch(text)
    if form == "said":
        return len(text) >= 5 and letter and (digit or symbol)
    return len(text) >= 5 and ((letter and digit) or (digit and len(text) >= 6) or symbol or looks_random(text))


def _are_drawn(words: list[str]) -> bool:
    """Whether these words are a passphrase rather than a sentence."""
    commonplace = sum(word in COMMONPLACE or word in _COMMON for word in words)
    return _COMMON.isdisjoint(words) and 3 * commonplace <= len(words)


def looks_random(text: str) -> bool:
    """Whether the text looks drawn at random: long, of letters and digits that change places often."""
    if _UUID.fullmatch(text):
        return True
    letters = sum(character.isalpha() for character in text)
    digits = sum(character.isdigit() for character in text)
    if letters + digits < 12 or not letters or _CAMEL.fullmatch(text):
        return False
    changes = sum(_class(a) != _class(b) for a, b in pairwise(text) if a.isalnum() and b.isalnum())
    if digits:
        return changes >= max(3, (letters + digits) // 8)
    return changes >= 4 and text.isalnum()


def _class(character: str) -> int:
    return 0 if character.isdigit() else 1 if character.islower() else 2
