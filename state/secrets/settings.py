"""Settings: finds secrets by the syntax of files and commands, where the name beside them leaves it open.

`ENCRYPTION_KEY=…==`, `bindpw …`, `--token …`, `<Kennwort>…</Kennwort>`, the data of a Kubernetes Secret. In a file of
settings the syntax shows what is a value, so a password may be any word.
"""

import base64
import re
from collections.abc import Iterator
from itertools import chain

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.told.assigned import BARE_KEYS
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
# A directive at the start of a line, or an option.
_LED = late_pattern(
    rf"(?m)(?:^[ \t>+]{{0,8}}(?:#define[ \t]{{1,4}})?|(?<![\w-])(?P<flag>--))(?P<tie>){_NAME}[ \t]{{1,8}}{_VALUE}"
)
_BACK = 90
_KINDS = {Noun.PASSWORD: "password", Noun.KEY: "secret"}
_ELEMENT = late_pattern(
    r"<(?P<name>[\w:.-]{2,60})(?:\s[^<>\n]{0,120})?>(?P<value>[^<>\n]{4,400})</(?=[\w:.-]{2,60}>)"
    r"(?:[\w:.-]{2,60}>\s{0,20}<(?:[Vv]alue|string)\b[^<>\n]{0,60}>(?P<next>[^<>\n]{4,400})</)?"
)
_WORDS = late_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# Endings of names, for last words that are not separated from what precedes them, or are in no language file.
_ENDINGS = {
    Noun.PASSWORD: "password passwd passphrase passwort kennwort wachtwoord pwd pw psk pass bindcredentials pskc",
    Noun.KEY: "secret token apikey salt pepper authkey secretid license licence",
}
# Names that join "password" with what it is the password of.
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
_PATH = late_pattern(
    r"(?:~|\.{0,2})/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}://|sha\d{3}[:-]|data:|arn:|[$%&*@!?#]|ssh-|.*[\[\]\\].*|.*\w\("
)
_HEX = late_pattern(r"[0-9a-fA-F-]+")
_SECRET_FILE = late_pattern(
    r"(?im)^[ \t]*kind:[ \t]*[\"']?(?:Sealed)?Secret\b|^[ \t]*#[^\n]{0,80}\bsecrets?\b[^\n]{0,80}\bbase64"
)
_DATUM = late_pattern(
    r"(?m)^[ \t]+[\"']?[\w.-]{1,80}[\"']?:[ \t]+[\"']?(?P<secret>[A-Za-z0-9+/]{6,4000}={0,2})[\"']?[ \t]*$"
)
_PADDED = late_pattern(r"[A-Za-z0-9+/_-]{10,}={1,2}")


def settings(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each secret that the syntax of a setting reveals."""
    for match in chain(_tied(text), _LED.finditer(text)):
        noun = noun_of(match["name"])
        if noun and _is_value(text, match, noun):
            start, end = match.span("quoted" if match["quote"] else "bare")
            yield _KINDS[noun], start, start + len(text[start:end].rstrip(".,)"))
    if "</" in text:
        yield from _elements(text)
    if _SECRET_FILE.search(text):
        for match in _DATUM.finditer(text):
            if _is_base64_text(match["secret"]):
                yield "secret", *match.span("secret")


def _tied(text: str) -> Iterator[re.Match[str]]:
    """Yield names with their values, also inside a connection string ("User=…;Password=…")."""
    for match in _TIED.finditer(text):
        yield match
        if match["quote"] and ";" in match["quoted"]:
            yield from _TIED.finditer(text, *match.span("quoted"))


def noun_of(name: str) -> Noun | None:
    """Return the kind of value that the last words of a name announce, in any language of the vocabulary."""
    words = _WORDS.findall(name)
    nouns = vocabulary().nouns
    for count in (3, 2, 1):
        noun = nouns.get(key_of("".join(words[-count:])))
        if noun in {Noun.PASSWORD, Noun.KEY}:
            return None if _PUBLIC.search(name) else noun
    lowered = key_of(name)
    if not lowered.isascii():
        lowered = lowered.rstrip("はが是为為")
        tails = (nouns.get(lowered[-count:]) for count in range(10, 1, -1))
        return next((noun for noun in tails if noun in {Noun.PASSWORD, Noun.KEY}), None)
    if lowered in _MATERIAL:
        return Noun.PASSWORD
    named = (noun for noun, ends in _ENDINGS.items() if lowered.endswith(tuple(ends.split())))
    return None if _PUBLIC.search(name) else next(named, None)


def _is_value(text: str, match: re.Match[str], noun: Noun) -> bool:
    """Return whether a name's value is a secret: it looks random, or the syntax makes it a password."""
    name, tie = match["name"], match["tie"]
    value = match["quoted"] if match["quote"] else match["bare"].rstrip(".,)")
    if len(value) < 4 or is_placeholder(value) or is_template(value) or text[match.end() : match.end() + 1] == "(":
        return False
    is_public = noun is Noun.KEY and (
        bool(_OPEN.search(text, max(0, match.start() - _BACK), match.start()))
        or (key_of(name) in BARE_KEYS and bool(_HEX.fullmatch(value)))  # too often a hash
    )
    if is_public or (_PATH.match(value) and not _PADDED.fullmatch(value)):
        return False
    is_tied = tie.strip() or match["flag"] or match["quote"] or not name.isascii()
    if is_random(value) and (is_tied or len(_WORDS.findall(name)) > 1):
        return True
    if noun is Noun.KEY or match["quote"] or _is_label(value):
        is_bound = noun is not Noun.KEY and bool(match["quote"]) and key_of(name).endswith(_BOUND)
        return is_bound and strength(value) >= UNUSUAL
    first, stop = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
    rest = text[match.end() : stop if stop >= 0 else len(text)]
    is_alone = not text[first : match.start()].strip(" \t-") and not rest.strip(" \t\"'\\\r")
    if not tie.strip():  # bindpw reader-of-things
        return is_alone and not match["flag"] and ("_" in name or name.endswith(("pw", "psk")))
    before = text[match.start() - 1 : match.start()]
    return (is_alone and _has_user(text, match)) or (tie == "=" and (is_alone or before in {";", "&", "?"}))


def _has_user(text: str, match: re.Match[str]) -> bool:
    """Return whether the setting above or below is the user name that belongs to a password."""
    first = text.rfind("\n", 0, match.start()) + 1
    above = text[max(0, text.rfind("\n", 0, max(0, first - 1)), first - _BACK) : first]
    below = text[match.end() + 1 : match.end() + _BACK]
    name = _USER.search(above) or _USER.match(below)
    return name is not None and not is_placeholder(name["value"]) and len(match["bare"]) > 5


def is_random(value: str) -> bool:
    """Return whether a setting's value is random; also accepts base64 padding, and upper case as in base32."""
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
    if not parts:
        return not any(map(str.isdigit, value))
    return 2 * sum(part in words.about for part in parts) > len(parts) or any(part in words.named for part in parts)


def _elements(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _ELEMENT.finditer(text):
        if match["next"] and noun_of(match["value"]) and not _is_label(match["next"]):
            yield "password", *match.span("next")
            continue
        noun, value = noun_of(match["name"]), match["value"]
        if noun is None or is_placeholder(value) or is_template(value) or _PATH.match(value):
            continue
        spoken = len(value.split()) > 1 or match["name"] == "string"  # text of a user interface
        if is_random(value) or (noun is Noun.PASSWORD and not spoken and not _is_label(value)):
            yield _KINDS[noun], *match.span("value")


def _is_base64_text(value: str) -> bool:
    try:
        content = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except ValueError:
        return len(value) >= 24 and is_random(value)
    return content.isprintable() or "\n" in content
