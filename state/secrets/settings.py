"""Settings: secrets by the syntax of files and commands, for what a name beside them leaves open.

`ENCRYPTION_KEY=…==`, `bindpw …`, `--token …`, `<Kennwort>…</Kennwort>`, the data of a Kubernetes Secret.
Where a text is a file of settings, its syntax says what is a value: a password may be any word.
"""

import base64
import re
from collections.abc import Iterator
from itertools import chain

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.value import UNUSUAL, is_placeholder, is_template, looks_drawn, strength
from state.text.patterns import late_pattern

_NAME = r"(?P<name>[^\W\d][\w.-]{1,80}+)"
_VALUE = (
    r"(?:(?P<quote>\\{0,3}[\"'])(?P<quoted>[^\"'\n\\]{4,400})(?=\\{0,3}[\"'])|(?P<bare>[^\s\"'`<>,;&|(){}]{4,600}))"
)
_TIED = late_pattern(
    rf"(?<![\w.$@/-])(?P<flag>--?)?{_NAME}[\\\"'\]]{{0,5}}[ \t]{{0,8}}"
    rf"(?P<tie>=>|:=|<-|=|:(?![:/])|：)[ \t]{{0,8}}{_VALUE}"
)
# A directive at the beginning of a line, or an option.
_LED = late_pattern(
    rf"(?m)(?:^[ \t>+]{{0,8}}(?:#define[ \t]{{1,4}})?|(?<![\w-])(?P<flag>--))(?P<tie>){_NAME}[ \t]{{1,8}}{_VALUE}"
)
_BACK = 90
_KINDS = {Noun.PASSWORD: "password", Noun.KEY: "secret"}
_ELEMENT = late_pattern(
    r"<(?P<name>[\w:.-]{2,60})(?P<attributes>\s[^<>\n]{0,120})?>(?P<value>[^<>\n]{4,400})</(?=[\w:.-]{2,60}>)"
    r"(?:[\w:.-]{2,60}>\s{0,20}<(?:[Vv]alue|string)\b[^<>\n]{0,60}>(?P<next>[^<>\n]{4,400})</)?"
)
_NAMED = late_pattern(r"\b(?:name|key|id)\s?=\s?[\"'](?P<name>[\w:.-]{2,60})[\"']")
_WORDS = late_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# Names whose last word is written as one with what is before it, and those that no language has.
_ENDINGS = {
    Noun.PASSWORD: "password passwd passphrase passwort kennwort wachtwoord pwd pw psk pass bindcredentials pskc",
    Noun.KEY: "secret token apikey salt pepper authkey secretid sessionid license licence",
}
# Written as one word with what it is the password of.
_BOUND = tuple("dbpass userpass smtppass mailpass rootpass adminpass ftppass sqlpass authpass dbpw".split())
_USER = late_pattern(
    r"(?im)^[ \t]*[\w.-]{0,20}"
    r"(?:user(?:[_-]?name)?|login|usuario|utente|utilisateur|benutzer|uid)[ \t]?[=:][ \t]?(?P<value>\S{2,60})[ \t]*$"
)
_MATERIAL = frozenset({"keymaterial", "sharedkey", "presharedkey"})
_PUBLIC = late_pattern(
    r"(?i)(?:^|[_.-])(?:public|pub|publishable|cache|primary|foreign|sort|partition|idempotency|next|page|site|csrf|host|nextpage|applicationserver"
    r"|min|max|num|count|eos|bos|pad|unk|mask|stop)(?=$|[_.A-Z-])|(?:public|publishable|site|cache|partition)_?[Kk]ey|fingerprint"
)
_OPEN = late_pattern(
    r"(?i)\b(?:public\w{0,3}|öffentlich\w{0,2}|publique|pública|pubblica|публичн\w{1,3}|openbare|публічн\w{1,3})"
    r"[ _-]$"
)
_ABOUT = late_pattern(
    r"(?:reset|forgot|forgotten|change|show|hide|toggle|confirm|no|has|is|min|max|use|with|new|old|valid\w*|check|require\w*)$"
)
_PATH = late_pattern(
    r"(?:~|\.{0,2})/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}://|sha\d{3}[:-]|data:|arn:|[$%&*@!?#]|ssh-|.*[\[\]\\].*|.*\w\("
)
_HEX = late_pattern(r"[0-9a-fA-F-]+")
_SECTION = late_pattern(r"(?m)^\[[\w .:/\"-]{1,60}\][ \t]*$")
_LINE = late_pattern(r"(?m)^[ \t]*(?:export |set |- )?[\w.-]{2,60}[ \t]?[=:][ \t]?\S{1,200}[ \t]*$")
_SECRET_FILE = late_pattern(
    r"(?im)^[ \t]*kind:[ \t]*[\"']?(?:Sealed)?Secret\b|^[ \t]*#[^\n]{0,80}\bsecrets?\b[^\n]{0,80}\bbase64"
)
_DATUM = late_pattern(
    r"(?m)^[ \t]+[\"']?[\w.-]{1,80}[\"']?:[ \t]+[\"']?(?P<secret>[A-Za-z0-9+/]{6,4000}={0,2})[\"']?[ \t]*$"
)
_UUID = late_pattern(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_IDEOGRAPHS = late_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_ODD = late_pattern(r"[\d!$%&*+.@^~_-]|[a-z][A-Z]")
_PADDED = late_pattern(r"[A-Za-z0-9+/_-]{10,}={1,2}")


def settings(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each secret that the syntax of a setting shows."""
    is_file = bool(_SECTION.search(text)) or len(list(_LINE.finditer(text, 0, 4096))) >= 2
    for match in chain(_tied(text), _LED.finditer(text)):
        noun = noun_of(match["name"])
        if noun and _is_value(text, match, noun, is_file=is_file):
            start, end = match.span("quoted" if match["quote"] else "bare")
            yield _KINDS[noun], start, start + len(text[start:end].rstrip(".,)"))
    if "</" in text:
        yield from _elements(text)
    if _SECRET_FILE.search(text):
        for match in _DATUM.finditer(text):
            if _is_base64_text(match["secret"]):
                yield "secret", *match.span("secret")


def _tied(text: str) -> Iterator[re.Match[str]]:
    """Names and their values; within a string of settings ("User=…;Password=…") each of them."""
    for match in _TIED.finditer(text):
        yield match
        if match["quote"] and ";" in match["quoted"]:
            yield from _TIED.finditer(text, *match.span("quoted"))


def noun_of(name: str) -> Noun | None:
    """Return what a name says of its value: the last words of it, in any language of the vocabulary."""
    words = _WORDS.findall(name)
    nouns = vocabulary().nouns
    for count in (3, 2, 1):
        noun = nouns.get(key_of("".join(words[-count:])))
        if noun in {Noun.PASSWORD, Noun.KEY}:
            before = words[-count - 1].lower() if len(words) > count else ""
            return None if _ABOUT.fullmatch(before) or _PUBLIC.search(name) else noun
    lowered = key_of(name)
    if not lowered.isascii():
        lowered = lowered.rstrip("はが是为為")
        tails = (nouns.get(lowered[-count:]) for count in range(10, 1, -1))
        return next((noun for noun in tails if noun in {Noun.PASSWORD, Noun.KEY}), None)
    if lowered in _MATERIAL:
        return Noun.PASSWORD
    named = (noun for noun, ends in _ENDINGS.items() if lowered.endswith(tuple(ends.split())))
    return None if _PUBLIC.search(name) else next(named, None)


def _is_value(text: str, match: re.Match[str], noun: Noun, *, is_file: bool) -> bool:  # noqa: PLR0911 - one form after the other
    quoted = bool(match["quote"])
    value = match["quoted"] if quoted else match["bare"].rstrip(".,)")
    if len(value) < 4 or is_placeholder(value) or is_template(value):
        return False
    if _PATH.match(value) and not _PADDED.fullmatch(value):
        return False
    is_session = noun is Noun.KEY and _UUID.fullmatch(value) and "session" in match["name"].lower()
    if is_session or text[match.end() : match.end() + 1] == "(":
        return False
    if noun is Noun.KEY and _OPEN.search(text, max(0, match.start() - _BACK), match.start()):
        return False
    tie = match["tie"]
    is_tied = tie.strip() or match["flag"] or quoted or not match["name"].isascii()
    if is_random(value) and (is_tied or len(_WORDS.findall(match["name"])) > 1):
        return noun is Noun.PASSWORD or _is_key(match["name"], value)
    first = text.rfind("\n", 0, match.start()) + 1
    alone = not text[first : match.start()].strip(" \t-") and _ends_line(text, match.end())
    if noun is Noun.KEY:
        return False
    if quoted:
        return key_of(match["name"]).endswith(_BOUND) and strength(value) >= UNUSUAL
    return not _is_label(value) and _is_chosen(text, match, alone=alone, is_file=is_file)


def _is_chosen(text: str, match: re.Match[str], *, alone: bool, is_file: bool) -> bool:
    """Return whether the syntax around a bare word leaves no doubt that it is the password of its name."""
    tie, value = match["tie"], match["bare"].rstrip(".,)")
    if not tie.strip():  # bindpw reader-of-things
        return alone and not match["flag"] and ("_" in match["name"] or match["name"].endswith(("pw", "psk")))
    if alone and _has_user(text, match):
        return True
    tight = tie == "=" and (alone or text[match.start() - 1 : match.start()] in {";", "&", "?"})
    return tight or (alone and is_file and bool(_ODD.search(value)))


def _has_user(text: str, match: re.Match[str]) -> bool:
    """Return whether the setting above or below is the name that goes with a password."""
    first = text.rfind("\n", 0, match.start()) + 1
    above = text[max(0, text.rfind("\n", 0, max(0, first - 1)), first - _BACK) : first]
    below = text[match.end() + 1 : match.end() + _BACK]
    name = _USER.search(above) or _USER.match(below)
    return name is not None and not is_placeholder(name["value"]) and len(match["bare"]) > 5


def _ends_line(text: str, end: int) -> bool:
    stop = text.find("\n", end)
    return not text[end : stop if stop >= 0 else len(text)].strip(" \t\"'\\\r")


def _is_key(name: str, value: str) -> bool:
    """Return whether the value of a bare "key" is one: a hash stands behind too many of them."""
    words = _WORDS.findall(name)
    bare = len(words) == 1 and key_of(name) in {"key", "clave", "clé", "chave", "chiave", "llave", "token"}
    return not bare or (not _HEX.fullmatch(value) and len(value) >= 20)


def is_random(value: str) -> bool:
    """Return whether a value of a setting was drawn: padding, and capitals alone, as base32 and base64 have them."""
    bare = value.rstrip("=")
    if len(bare) < 10 or any(character.isspace() for character in bare) or not bare.isascii():
        return False
    digits = sum(map(str.isdigit, bare))
    if looks_drawn(bare) or (_PADDED.fullmatch(value) and digits and looks_drawn(bare + "00")):
        return True
    changes = len(re.findall(r"[A-Z][0-9]|[0-9][A-Z]", bare))
    return len(bare) >= 16 and bare.isalnum() and bare.isupper() and digits >= 2 and changes >= 3


def _is_label(value: str) -> bool:
    """Return whether a value only names a secret, or says whether there is one."""
    words = vocabulary()
    parts = [key_of(part) for part in _WORDS.findall(value)]
    if _IDEOGRAPHS.search(value) and not any(map(str.isdigit, value)):
        return True
    if not parts:
        return not any(map(str.isdigit, value))
    return 2 * sum(part in words.about for part in parts) > len(parts) or any(part in words.named for part in parts)


def _elements(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _ELEMENT.finditer(text):
        if match["next"] and noun_of(match["value"]) and not _is_label(match["next"]):
            yield "password", *match.span("next")
            continue
        named = _NAMED.search(match["attributes"] or "")
        noun, value = noun_of(named["name"] if named else match["name"]), match["value"]
        if noun is None or is_placeholder(value) or is_template(value) or _PATH.match(value):
            continue
        spoken = len(value.split()) > 1 or match["name"] == "string"  # the words of a program
        if is_random(value) or (noun is Noun.PASSWORD and not spoken and not _is_label(value)):
            yield _KINDS[noun], *match.span("value")


def _is_base64_text(value: str) -> bool:
    try:
        content = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except ValueError:
        return len(value) >= 24 and is_random(value)
    return content.isprintable() or "\n" in content
