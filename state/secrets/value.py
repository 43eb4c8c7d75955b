"""The look of a value: whether it is a chosen password, random, or only a placeholder for a secret."""

import functools
import re
from collections.abc import Callable
from itertools import permutations
from typing import TypeVar

from state.secrets.languages import Vocabulary, key_of, vocabulary
from state.text.languages.loader import commonplace_in_english
from state.text.patterns import late_pattern

# How much a bare word looks like a secret. The required strength depends on how it is tied to a noun.
NOTHING, PLAIN, UNUSUAL, CHOSEN, EVIDENT = range(5)
# This many characters show what the whole value looks like.
_ENOUGH = 64
_REMEMBERED = 4096
_Result = TypeVar("_Result")
_CACHES: list[Callable[[], None]] = []

# The class of each ASCII character (digit, lower case, upper case), and the changes from one class to another.
_KINDS = "dac"
_CLASSES = {
    code: _KINDS[0 if chr(code).isdigit() else 1 if chr(code).islower() else 2] if chr(code).isalnum() else " "
    for code in range(128)
}
_APOSTROPHES = frozenset("'’")
_BEHIND_WORDS = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000>*_"
)
_CHANGES = tuple(map("".join, permutations(_KINDS, 2)))
SYMBOLS = frozenset("!@#$%^&*?+=~§€£¡¿!#@")
_INNER = late_pattern(r"[^\W_][!@#$%^*§€£¡!]+[^\W_]")
_LEETED = late_pattern(r"[^\W\d_]\d{1,3}[^\W\d_]")
_UUID = late_pattern(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
# CamelCase, as in names of types and variables: a run of capitals, or capitals each followed by two lower-case
# letters.
_CAMEL = late_pattern(r"(?=(?:[^a-z]*[a-z]{2,}){2})[a-z]*(?:[A-Z]\d{0,2}|[A-Z][a-z]{2,}\d{0,2})+(?:\[.*)?")

_NAME = late_pattern(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_NAME_WORDS = late_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SNAKE = late_pattern(r"_?[a-z]+(?:_[a-z]+)+")
_TEMPLATE = late_pattern(
    r"<[^<>]{1,80}>|\{\{.{0,80}\}\}|\{[\w. -]{0,60}\}|\$\{.{0,120}\}?|\$\(.{0,200}\)?|\$\{\{.{0,120}"
    r"|\$[A-Za-z_]\w*|%\(?[A-Za-z_]\w*\)?[%sd]?"
    r"|@[A-Za-z_]+@|\[[^\]]{0,80}\]|__\w{2,60}__|#\{.{0,80}\}?|\{\{.{0,120}|<[^<>]{1,80}|%[sd@v]|:[a-z_]{2,30}|env\(.{0,60}\)?"
    r"|(?:vault|op|ssm|secretsmanager|awskms|keyring|env|file|sops|enc|doppler|bw|pass)(?:\+\w+)?:[/\w]?.{0,200}|ENC\[.*|Ag[A-D][\w+/=]{80,}|!(?:vault|secret|Ref|Sub|env).{0,100}"
    r"|[A-Za-z_-]{0,20}[xX*]{8,}|(.)\1{3,}|[*•.…xX_·#–-]{3,}"
    r"|(?=[xX*•…]{2,}+[-_ :./]?[xX*•…]{2}|[xX*•…]{4})[xX*•…]{2,}+(?:[-_ :./][xX*•…]{2,}+)*+[-_ :./]?"
    r"|[A-Z0-9/+]{6,60}EXAMPLE(?:KEY)?|.{1,40}EXAMPLEKEY|[*]{0,3}(?:REDACTED|REMOVED).{0,3}|.{1,80}[xX]{12,}",
    re.DOTALL,
)
_PARTS = late_pattern(r"[\s_.:/-]+|(?<=[a-z])(?=[A-Z])")
_PLAIN_WORDS = """
password passwd passphrase pass secret token apikey api key credential credentials none null nil undefined user
client true false required optional string str bool int bytes object any unknown default empty missing invalid
wrong hidden masked sensitive admin root username test testing todo tbd n/a unset disabled enabled text hash
hashed encrypted access decoded encoded self server request response return await async function const let var
generated rotated auth id app expired expires revoked stored needed correct incorrect strong weak foobar foo bar
baz xxx abc db database private random long very super generate public account service secrets env name login
email mail number varchar blank same confidential classified redacted
"""
_NO_SECRETS = frozenset(_PLAIN_WORDS.split())
_TEMPLATE_HEADS = frozenset(
    "your my example sample dummy fake placeholder insert change replace changeme here".split()
)

_NO_LOOK = late_pattern(
    r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+[.,;:]?|[a-z][a-z0-9+.-]{1,20}://.*|www\..*|(?:~|\.{1,2})?/.*|[A-Za-z]:\\.*|\\\\.*"
    r"|\d{1,4}[-./:]\d{1,2}(?:[-./:T]\d{1,4})*(?:Z|\+\d\d.*)?|v?\d+(?:\.\d+)+[\w.-]*|[A-Z]{2,10}-\d{1,7}|#\d+|[>)]?@[\w.:/-]+|h1:.*|&\w+;"
    r"|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,6}(?::\d+)?|\d[\d.,x×-]*(?:[ _-]?(?:[a-z]{1,12}|[A-Z]{1,3}|%"
    r"|°C?))?|--?[\w-]+(?:=.*)?"
    r"|[€$£]?\d[\d.,]*[kKmM€$%]?|\d+(?:st|nd|rd|th|er|e|º|ª)|(?:SHA|sha|MD|md|crc|CRC)\d*[:-].*|data:.*|arn:.*|(?:[0-9A-Fa-f]{2}[:-]){3,}[0-9A-Fa-f]{2}|#[0-9A-Fa-f]{3,8}|#L\d.*|.*\.tgz#.*|[0-9a-f]{7,}\.\.\.?[0-9a-f]{7,}|0x[0-9a-fA-F]{1,20}|[\w.-]+\.(?:example|invalid|localhost)",
    re.DOTALL,
)
# base64, SHA-256, OAuth2, v1.2, 2FA, 8-character: ordinary words with digits.
_TECHNICAL = late_pattern(
    r"(?:base|sha|md|utf|aes|rsa|oauth|http|ipv|tls|ssl|bcrypt|argon|hmac|rfc|iso|hs|rs|es|ec|oidc|saml|log|web|node|wpa|wep"
    r"|ed|python|py|ubuntu|postgres|mysql|vault|level|step|phase|part|type|day|week|item|line|page|user|admin|test|option"
    r"|port|gpio|version|room|error|ticket|issue|build|order|server|host|srv|db|vm|pc|kw|windows|win|office|java|css|html"
    r"|php|ios|android|gpt|claude|llama|gemini|mp|ps|usb|ean|isbn|din|vpn|nas|covid|eu|us|ap|area|gate|flight|bus|pin|pr|bug)"
    r"[ _-]?\d{1,6}(?:[._-][\w.-]{1,12}|[a-z]{1,4}|\w)?"
    r"|\d[\d.,x-]*(?:[ _-]?[a-z]{1,12})?|[a-z]{1,4}\d|[a-z]{1,3}\d{1,4}[a-z]?"
    r"|k8s|i18n|l10n|a11y|b2[bc]|s3|e2e",
    re.IGNORECASE,
)
# group:core:2.0.0-rc.1, docker/login-action@v3, actions/checkout@<commit>, Firefox/126.0.1, kv/data/payments#stripe
_REFERENCE = late_pattern(
    r"[A-Za-z_][\w.-]*(?:[:/][\w.-]+){0,4}(?:[:@]v?\d+(?:\.\d+)+[\w.+-]*|@v\d+(?:\.\d+)*|@[0-9a-f]{40})"
    r"|[A-Za-z_][\w.-]*/[\w./-]+@(?:v?\d[\w.]*|main|master|[0-9a-f]{7,})|[A-Za-z]+/\d+(?:\.\d+)+"
    r"|[A-Za-z_-]+(?:/[A-Za-z_.-]+)+[#:][\w-]+|(?:kv|secrets?|projects|vault|data|prod|staging|services?|apps?|src|config)(?:/[A-Za-z_.-]+)+"
    r"|(?:[A-Z][a-z]+){2,}(?:\.[A-Z]\w*)+|\d+:\d+:(?:web|ios|android):[0-9a-f]+"
)
_CODE_LIKE = late_pattern(r"[(){}\[\]<>;|\\\"'`]|=[\w\"'=>]|::|->|&&|\w\.\w+\(|^[-+=/*]|,\w|\w=$")
_JOINED = late_pattern(r"[^\W\d_]{2,}(?:[-_.&+][^\W\d_]{2,}){1,6}[!?]?")
_JOINT_WORDS = """
base sensitive only free side factor sign in up less level term like specific driven re auto non pre self multi
single two three case read write well co sub un anti user log end cross open source server client web site page
app mail name line data file key value text type mode code test unit on off out over under post get put delete
http https api rest json yaml html css url uri uuid id ids max min long run real life full part high low top left
right set add alpha beta gamma env dev prod staging config conf settings default session cache store model view
index main util utils helper core common lib
"""
_JOINTS = frozenset(_JOINT_WORDS.split())
_CALL_LIKE = late_pattern(
    r"\w\(|^[=:)\]}|,]|=[\"'$`]|::|->|=>|&&|://|\)\.|\$\(|\w\[\w*\]|\\[sdwSDW]|^[-+*/]|[=({\[]$|^[^\w]*\w*=\["
)
_TRAILING_DIGITS = late_pattern(r"\d+$")


def remembered(function: Callable[..., _Result]) -> "functools._lru_cache_wrapper[_Result]":
    """Cache the results of a function until `forget` is called: its arguments are pieces of a text."""
    cached = functools.lru_cache(_REMEMBERED)(function)
    _CACHES.append(cached.cache_clear)
    return cached


def last_word(text: str) -> tuple[str, int]:
    """Return the last word of a text, including an apostrophe and what follows it, and its start; "" if none."""
    text = text.rstrip(_BEHIND_WORDS)
    start = _word_start(text, len(text))
    if start < len(text) and text[start - 1 : start] in _APOSTROPHES:
        earlier = _word_start(text, start - 1) if start else 0
        start = earlier if earlier < start - 1 else start
    return text[start:], start


def _word_start(text: str, end: int) -> int:
    while end and text[end - 1].isalnum():
        end -= 1
    return end


def is_template(value: str) -> bool:
    """Return whether a program fills in the value, or it is blanked out."""
    return bool(_TEMPLATE.fullmatch(value))


@remembered
def is_placeholder(value: str) -> bool:
    """Return whether the whole value is a placeholder for a secret: a variable, a template, dots, plain words."""
    word = value[: 2 * _ENOUGH].strip("\"'`.,;:!? ")
    if not word or len(set(word.lower())) == 1 or _TEMPLATE.fullmatch(word) or _TEMPLATE.fullmatch(value):
        return True
    parts = [part for part in _PARTS.split(word) if part]
    words = vocabulary()
    known = [_is_stock(part.lower()) for part in parts]
    if all(known) or (any(known) and _is_wish(parts)) or (not word.isascii() and _is_wide_stock(word)):
        return True
    bare = [
        part.rstrip("0123456789") if part[:1].isalpha() and part.isalnum() and part.islower() else part
        for part in parts
    ]
    heads = _TEMPLATE_HEADS & set(bare)
    strange = [part for part in bare if part and not _is_stock(part)]
    # xoxb-your-token
    is_prefix = (
        len(strange) == 1 and len(bare) > 2 and len(strange[0]) < 6 and strange[0].islower() and strange[0].isalpha()
    )
    return bool(heads) and (not strange or is_prefix) and key_of(word) not in words.small


def _is_wish(parts: list[str]) -> bool:
    """Return whether words ask for a value: "pon-aqui-la-tuya"."""
    words, lowered = vocabulary(), [part.lower() for part in parts]
    return any(part in words.yours for part in lowered) and all(
        part in words.yours or part in words.small or _is_stock(part) for part in lowered
    )


def _is_wide_stock(word: str) -> bool:
    """Return whether a text without spaces consists of words of placeholders: あなたのパスワード."""
    words, at = vocabulary(), 0
    while at < len(word):
        sizes = (size for size in range(min(10, len(word) - at), 0, -1) if _is_wide_word(words, word[at : at + size]))
        size = next(sizes, 0)
        if not size:
            return False
        at += size
    return True


def _is_wide_word(words: Vocabulary, part: str) -> bool:
    return part > "\u3000" and (part in words.yours or part in words.small or key_of(part) in words.named)


@remembered
def _is_stock(word: str) -> bool:
    words = vocabulary()
    return word in _NO_SECRETS or word in words.yours or key_of(word) in words.named or set(word) <= {"x", "*"}


@remembered
def looks_drawn(text: str) -> bool:
    """Return whether the text looks random: long, with letters and digits that alternate often."""
    if _UUID.fullmatch(text):
        return True
    if text.startswith(("SHA256:", "MD5:", "sha256:", "h1:")) or not text.isascii():
        return False
    text = text[:_ENOUGH]
    letters, digits = sum(map(str.isalpha, text)), sum(map(str.isdigit, text))
    if letters + digits < 12 or not letters or _CAMEL.fullmatch(text) or is_name(text):
        return False
    classes = text.translate(_CLASSES)
    changes = sum(map(classes.count, _CHANGES))
    if digits:
        return changes >= max(3, (letters + digits) // 8)
    return changes >= 4 and text.isalnum()


def is_name(text: str) -> bool:
    """Return whether this is a name in a program: V1LocalObjectReference, rust_openssl.kdf.Argon2d."""
    words = _NAME_WORDS.findall(text)
    letters = sum(map(len, words))
    return bool(_NAME.fullmatch(text)) and sum(map(str.isdigit, text)) <= 4 and letters >= 3.5 * max(1, len(words))


def is_reference(word: str) -> bool:
    """Return whether a word refers to a version or an entry of something."""
    return bool(_REFERENCE.fullmatch(word))


def is_code(word: str) -> bool:
    """Return whether a bare word looks like program code."""
    return bool(_CODE_LIKE.search(word))


@remembered
def is_call(word: str) -> bool:
    """Return whether a bare word is part of a program rather than a password with brackets."""
    return bool(_CALL_LIKE.search(word))


def is_technical(word: str) -> bool:
    """Return whether a word contains digits as SHA-256, OAuth2 and 2FA do."""
    return bool(_TECHNICAL.fullmatch(word))


@remembered
def strength(word: str) -> int:  # noqa: PLR0911 - one look after the other
    """Return how much a bare word looks like a password or key, from NOTHING to EVIDENT."""
    if len(word) < (4 if word.isascii() else 2) or is_placeholder(word):
        return NOTHING
    word = word[: 2 * _ENOUGH]
    letter = any(character.isalpha() for character in word)
    digit = any(character.isdigit() for character in word)
    symbols = sum(character in SYMBOLS for character in word[1:])
    if _NO_LOOK.fullmatch(word) or is_technical(word) or _REFERENCE.fullmatch(word):
        return UNUSUAL if word.isdigit() and len(word) >= 6 else NOTHING
    if not letter:
        return UNUSUAL if digit and symbols and len(word) >= 6 else NOTHING
    if digit:
        return _with_digits(word, symbols + (word[0] in SYMBOLS))
    if _INNER.search(word) and len(word) >= 6:
        return CHOSEN
    if _SNAKE.fullmatch(word):
        return PLAIN
    if (symbols and len(word) >= 6) or (_JOINED.fullmatch(word) and _are_odd(re.split(r"[-_.&+]", word.lower()))):
        return UNUSUAL
    return PLAIN if len(word) >= 5 or not word[0].isascii() else NOTHING


def _are_odd(parts: list[str]) -> bool:
    """Return whether these words are only joined in a password: orange-bicycle, but not case-sensitive."""
    words = vocabulary()
    known = words.small | words.about | words.yours | _JOINTS
    stock = sum(
        part in known or part in commonplace_in_english() or part in words.named or part.endswith("ed")
        for part in parts
    )
    return sum(map(len, parts)) >= 7 and (2 * stock < len(parts) or (2 * stock == len(parts) > 2))


def _with_digits(word: str, symbols: int) -> int:  # noqa: PLR0911 - one look after the other
    if len(word) >= 6 and symbols and not word.startswith(("#", "@", "$", "=", "+")):
        return EVIDENT
    if looks_drawn(word):
        return EVIDENT
    if len(word) >= 6 and symbols:
        return CHOSEN
    tail = _TRAILING_DIGITS.search(word)
    digits = len(tail[0]) if tail else 0
    stem = word[: len(word) - digits]
    if len(word) >= 8 and _LEETED.search(word) and not word.islower() and not word.isupper() and not digits:
        return CHOSEN
    if len(word) >= 7 and len(_LEETED.findall(word)) >= 1 and sum(map(str.isdigit, word)) >= 2:
        return CHOSEN
    if (digits >= 3 and len(stem) >= 3) or (digits == 2 and len(stem) >= 5 and stem[0].isupper() and "-" not in stem):
        return CHOSEN
    return UNUSUAL if len(word) >= 5 else NOTHING


def are_drawn(words: list[str]) -> bool:
    """Return whether these words are a passphrase rather than a sentence."""
    lowered = [word.lower() for word in words]
    known = vocabulary()
    commonplace = sum(word in commonplace_in_english() or word in known.about for word in lowered)
    is_named = any(key_of(word) in known.named for word in words)
    return not is_named and 3 * commonplace <= len(words) and known.small.isdisjoint(lowered)


def forget() -> None:
    """Clear all caches of judged words: some of them are secrets."""
    for clear in _CACHES:
        clear()
