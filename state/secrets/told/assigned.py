"""Secrets assigned to a name: `DB_PASSWORD=…`, `"api_key": "…"`, `--token …`.

A call, a type, a path, a placeholder or a plain word is no secret. With the name of a password any value counts that
looks chosen; with the name of a key or token only a value that looks random.
"""

import re
from dataclasses import dataclass

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.value import (
    CHOSEN,
    EVIDENT,
    UNUSUAL,
    are_drawn,
    is_call,
    is_name,
    is_placeholder,
    is_reference,
    is_technical,
    looks_drawn,
    remembered,
    strength,
)
from state.text.patterns import late_pattern

_HEAD = late_pattern(r"[A-Za-z0-9_.]*$")
_TAIL = late_pattern(r"[A-Za-z0-9À-ɏЀ-ӿ]{0,24}(?:\[\d{1,3}\])?(?:[_.-][A-Za-z0-9]{1,30}){0,4}")
# `password_hash`, `tokenizer`, `token_count`, `secret_name` are about a secret, but do not hold it.
_ABOUT = late_pattern(
    r"s?[_.-]?(?:hash(?!_?salt)|sha\d|md5|count|limit|length|len|type|name|path|file(?!_?pass)|url|uri|field|label|hint|policy|rules?|reset|min|max"
    r"|size|budget|usage|expir|ttl|at$|arn|ref|index|i[sz]e|i[sz]|less|ring|manager|prefix|version|format|provider|class"
    r"|store|required|strength|prompt|placeholder|input|error|valid|check|used|per|in$|out$|id$|ids$|ary|ion|ive|board|pad"
    r"|word_?(?:hash|length)|regex|pattern|mismatch|changed|created|updated|visible|toggle|confirm|repeat|again|match|form|screen|view"
    r"|dialog|column|enabled|disabled|rotation|age|history|complex|attempt|lock|util|helper|service|handler|encoder|factory"
    r"|endpoint|address|map|set$|list|s$)",
    re.IGNORECASE,
)
_NO_ABOUT = frozenset({"s", "_id", "_access_key", "_file_password"})
_BEFORE_ABOUT = late_pattern(
    r"(?<![a-z])(?:next_?page|next|page|continuation|cancel\w*|pad|eos|bos|unk|mask|sep|special|stop|max|min|num|total|sort|partition"
    r"|prompt|completion|input|output|public(?:[ _-]?key)?"
    r"|application[ _-]?server|vapid|cache|foreign|reset|forgot|no|primary[ _-]foreign"
    r"|idempotency|map|hot|short"
    r"|arrow|error|hint|label|title|message|dica|pista|indice|hinweis|country|postal|zip|status|exit|qr|bar|product|source|area|dial|color|colour|language|currency|promo|discount"
    r"|coupon|voucher|response|http|return|state|error|order|booking|tracking|reference|article|item|gate|airport|type)"
    r"[ _-]?$",
    re.IGNORECASE,
)
_ASSIGN = late_pattern(
    r"(?:[\\\"'\])`*」』】》”»]{0,9}\s{0,12}(?::=|=>|->|→|={1,3}|!=|:(?![:?+])|：|＝|\?=|\|\|=)|\\{0,7}[\"']\s{1,4}value\s?=)"
    r"\s{0,4}(?:\*{2}\s{1,2})?(?:!\w{2,8}\s)?"
)
_FLAG = late_pattern(r"[ =]{1,2}(?!-)")
_LISTED = late_pattern(r"\\{0,7}[\"']\]?,\s{0,2}(?=\\{0,7}[\"'])")
_BONDS = (
    (_ASSIGN, "assigned"),
    (_FLAG, "flag"),
    (_LISTED, "listed"),
)
_OPENING = late_pattern(r"(?:[rbuf]{1,2})?(\\{0,7}[\"'`]{1,3})|(\*{1,2}(?=\S))|[「『“„«]")
_CLOSING = {"「": "」", "『": "』", "“": "”", "„": "“", "«": "»"}
_BARE = late_pattern(r"[^\s\"'`<>，。、；「」『』（）]{1,256}")
_REST = late_pattern(r"[^\s\"'`<>，。、；「」『』（）&;,|]*")
_NEXT_FIELD = late_pattern(r"[;,&](?=\s|$|[\w.-]{1,40}\s?[=:])|;|\\[nrt]|&amp;|\|(?=\s|$)")
# Characters after a value that end a setting, but not an argument of a call.
_AROUND = ("", " ", "\n", "\r", "&", ";", "\\", "'", '"', "`", "\t")
_LONG = 250
_TRAILING = ".,;:?)]}*\\"

_CALLS = late_pattern(r"[\w.$!]*[^\W\d]\w*\??[.(\[]\w*[(\[\"']|[\w.$]*[^\W\d]\w*[(\[]|\[\w")
_DOTTED = late_pattern(r"[A-Za-z_$][\w$]*(?:(?:\?\.|\.|->|::)[A-Za-z_$][\w$]*)+!?")
_NUMBERED = late_pattern(r"[A-Za-z]+\d{1,2}")
# "velvet.quartz34" is a password that somebody typed; `self.password2` is a field.
_TYPED = late_pattern(r"\d{2,4}$")
_PATH = late_pattern(
    r"(?:~|\.{0,2})/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}://|sha\d{3}[:-]|data:|arn:|\$\{?[A-Za-z_]|\{\{"
)
# Validation rules of forms: required|string|min:8.
_RULES = late_pattern(r"[a-z]{2,}(?:\|[a-z]{2,}(?::[\w,]+)?)+")
_ABOUT_ITSELF = late_pattern(r"[a-z]+(?:[_.-][a-z]+)+")
_HEX = late_pattern(r"[0-9a-fA-F-]+")
_SYMBOL = late_pattern(r"[!@#$%^&*+=?~|{}§€£]")
_CODE = late_pattern(r"[(){}\[\]<>$|]")
_WORDS = late_pattern(r"[^\W\d_]{3,14}(?:[ -][^\W_]{2,14}){2,11}")
_SOURCE_FILE = late_pattern(r"\.(?:go|py|js|ts|tsx|java|rb|rs|c|h|cpp|cs|php|kt|swift|scala|html|md)$")
# keyring.set_password("service", user, …): the first argument says whose password it is.
_GIVEN_FIRST = late_pattern(r"\(\\{0,7}[\"'][^\"'\n]{1,80}\\{0,7}[\"'],\s")
_SETTING = late_pattern(r"(?:set|get|save|store|put|add|write|load|delete|remove|update)_?$", re.IGNORECASE)
_IDEOGRAPH = late_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
BARE_KEYS = frozenset({"key", "schlüssel", "clé", "llave", "chave", "chiave", "ключ", "clave"})
_FLAGGED = late_pattern(r"(?:^|\s)--?[\w-]*$")


@dataclass(frozen=True, slots=True)
class Value:
    """The value after a name.

    `form`: how it is tied to the name; `quote`: its opening quote; `tight`: nothing else is next to it.
    """

    text: str
    start: int
    quote: str
    form: str
    tight: bool = False


def name_start(text: str, start: int) -> int:
    """Return the start of the name that contains a noun starting here."""
    head = _HEAD.search(text, max(0, start - 40), start)
    return head.start() if head else start


def name_end(text: str, end: int) -> int:
    """Return the end of the name that contains a noun ending here."""
    tail = _TAIL.match(text, end)
    return tail.end() if tail else end


def is_about(text: str, start: int, end: int, stop: int) -> bool:
    """Return whether the name text[start:stop], whose noun ends at `end`, is only about a secret."""
    ending = text[end:stop]
    if ending and ending.lower() not in _NO_ABOUT and (_ABOUT.match(ending) or _SOURCE_FILE.search(ending)):
        return True
    before = text[max(0, start - 24) : start]
    if text[stop : stop + 1] == "(" and "." in text[end:stop]:
        return True
    if _SETTING.search(before) and _GIVEN_FIRST.match(text, stop):
        return True
    return _speaks_before(before)


@remembered
def _speaks_before(before: str) -> bool:
    """Return whether the words before a noun show that it means something else."""
    return bool(_BEFORE_ABOUT.search(before))


def value_of(text: str, start: int, stop: int) -> Value | None:
    """Return the value assigned to the name that ends at `stop`; the first matching bond decides."""
    for bond, form in _BONDS:
        if match := bond.match(text, stop):
            if form == "flag" and not _FLAGGED.search(text[max(0, start - 40) : start]):
                continue
            return read(text, match.end(), form)
    return None


def read(text: str, at: int, form: str) -> Value:
    """Return the value at an offset: up to its closing quote on the line, else the bare word."""
    if opening := _OPENING.match(text, at):
        start, mark = opening.end(), opening[1] or opening[0]
        end = text.find(_CLOSING.get(mark, mark), start, start + 4096)
        if end >= 0 and "\n" not in text[start:end]:
            return Value(text[start:end], start, mark, form)
        at = start
    bare = _BARE.match(text, at)
    word = bare[0] if bare else ""
    if more := _NEXT_FIELD.search(word):
        word = word[: more.start()]
    bound = word.rstrip(_TRAILING)
    tight = text[at - 1 : at] == "=" and text[at + len(bound) : at + len(bound) + 1] in _AROUND
    return Value(bound, at, "", form, tight=tight)


def end_of(value: Value, text: str) -> int:
    """Return the full end of a value that was judged by its beginning."""
    end = value.start + len(value.text)
    rest = _REST.match(text, end) if len(value.text) >= _LONG and not value.quote else None
    return rest.end() if rest else end


def is_secret(value: Value, noun: Noun, name: str, key: str) -> bool:  # noqa: PLR0911 - one look after the other
    """Return whether the value assigned to this name is a secret."""
    text = value.text
    if len(text) < 4 or is_placeholder(text) or _is_reference(value, shouted=name.isupper()):
        return False
    if noun is Noun.PASSWORD:
        return _is_password(value, name)
    if noun is Noun.LOGIN:
        return name.isupper() and len(text) >= 20 and looks_drawn(text) and "=" not in text[:8]
    if any(character.isspace() for character in text):
        return False
    if key in BARE_KEYS and (key_of(name) == key or not name.isupper()):
        return len(text) >= 16 and looks_drawn(text) and not _HEX.fullmatch(text) and bool(strength(text) == EVIDENT)
    if (
        (value.quote or name.isupper())
        and name.lower().endswith("secret")
        and strength(text) >= UNUSUAL
        and not is_technical(text)
    ):
        return not _is_word(text) and len(text) >= 8
    if (not value.quote and is_call(text)) or is_name(text):
        return False
    return (len(text) >= 12 and looks_drawn(text)) or (
        bool(value.quote) and len(text) >= 8 and strength(text) == EVIDENT
    )


def _is_reference(value: Value, *, shouted: bool) -> bool:
    """Return whether the value only refers to the secret: a path, an address, a call, a field, a type."""
    text = value.text
    if _RULES.fullmatch(text) or is_reference(text):
        return True
    if _PATH.match(text):
        return not any(looks_drawn(part) for part in text.split("/")) or "://" in text
    if value.quote:
        return False
    dotted = _DOTTED.fullmatch(text) and not _TYPED.search(text)
    return bool(_CALLS.match(text)) or (bool(dotted) and not looks_drawn(text) and not shouted)


def _is_password(value: Value, name: str) -> bool:  # noqa: PLR0911 - one look after the other
    """Return whether someone chose this as a password. Names in capitals are settings in a file."""
    text, shouted = value.text, name.isupper()
    if 2 <= len(text.split()) <= 10 and value.quote and (value.form == "flag" or shouted):
        return not _speaks(text)
    if _WORDS.fullmatch(text) and (value.quote or text.count("-") >= 3):
        return are_drawn(re.split("[ -]", text))
    if any(character.isspace() for character in text):
        return False
    if value.form != "listed" and (value.quote or shouted or value.form == "flag"):
        plain = text.isalpha()
        if (plain and value.form == "flag") or _is_word(text):
            return False
        return len(text) >= (6 if plain else 4)
    if value.form == "assigned" and value.tight and _is_lone(text):
        return True
    return not is_technical(text) and _looks_chosen(text, value.form)


def _is_word(text: str) -> bool:
    """Return whether a text only names something: a field, or a label in some language."""
    words = vocabulary()
    if _IDEOGRAPH.search(text) and (
        text[-1] in "?？)）" or any(word > "\u3000" and word in text for word in words.named)
    ):
        return True  # the label of a form: 忘记密码？
    parts = [key_of(part) for part in re.split(r"[_.\s-]", text)]
    about = sum(part in words.about for part in parts)
    known = 2 * about > len(parts) or any(part in words.named for part in (*parts, key_of(text)))
    return known and (bool(_ABOUT_ITSELF.fullmatch(text)) or key_of(text).isalpha())


def _speaks(text: str) -> bool:
    """Return whether a sentence is about a secret rather than being one."""
    words, spoken = vocabulary(), re.findall(r"[^\W\d_]+", text.lower())
    about = sum(word in words.about or word in words.yours for word in spoken)
    return 3 * about > len(spoken) or any(key_of(word) in words.named for word in spoken)


def _is_lone(text: str) -> bool:
    """Return whether a plain word after `password=` is not the name of a variable."""
    words = vocabulary()
    parts = [key_of(part) for part in re.split(r"[_.-]", text)]
    known = any(part in words.named or part in words.about or part in words.yours for part in parts)
    return len(text) >= 5 and not known and not _CODE.search(text) and any(map(str.isalpha, text))


def _looks_chosen(text: str, form: str) -> bool:
    """Return whether a bare word looks like a password by itself."""
    digit = any(character.isdigit() for character in text)
    letter = any(character.isalpha() for character in text)
    if form == "listed":  # ("password", "Tr0ub4dor&3")
        return len(text) >= 8 and letter and digit and not _NUMBERED.fullmatch(text)
    symbol = bool(_SYMBOL.search(text[1:]))
    return len(text) >= 5 and (
        (letter and digit) or (digit and len(text) >= 6) or (symbol and strength(text) >= CHOSEN)
    )
