"""Candidates: the spans of a text that could be a told secret, each with the nouns on both sides of it."""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.told.mentions import Mention, mentions
from state.secrets.value import (
    UNUSUAL,
    is_call,
    is_placeholder,
    is_reference,
    is_technical,
    last_word,
    looks_drawn,
    remembered,
    strength,
)
from state.text.patterns import late_pattern

REACH_BEHIND, REACH_AHEAD = 160, 90
_WIDE = "\u3001-\u303f\uff01-\uff0c\uff0e-\uff0f\uff1a-\uff20\uff3b-\uff3d\uff5b-\uff65"
_IDEOGRAPH = "\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_QUOTED = (
    r"(?<![\w\\])(?P<quote>[\"'`“„”«»‹「『‘‚]|\*\*|\\\")(?P<inner>[^\s\"`“”„«»‹›「」『』‘][^\n\"`“”„«»‹›「」『』]{0,60}?)"
    r"(?:(?<=\S)(?:[\"`“”«»›」』’‘]|\*\*|\\\"|'(?!\w))| [»›])"
)
_NUMBER = (
    rf"(?:(?<![\w.,/+-])|(?<=[{_IDEOGRAPH}]))[*#]?(?:\d{{1,8}}(?:(?:[ \u00a0-]| – )\d{{2,8}}){{1,7}}"
    rf"|\d{{1,2}}(?:-\d{{1,2}}){{3,5}}|\d{{3,12}}|\d(?:[ -]\d){{3,7}})[#*]?(?![A-Za-zÀ-ӿ_\d%°€$]|[.,:/-]\d)"
)
# Codes of keypads: 2580E, B4729, 38К2417.
_CODE = r"(?<![\w.,/+#-])(?:[A-ZА-Я]\d{3,6}[A-ZА-Я]?|\d{3,6}[A-ZА-Я]|\d{1,3}[A-ZА-Я]\d{2,5})(?![\w%°€$-]|[.,:/]\d)"
_WORD = rf"[^\s{_WIDE}{_IDEOGRAPH}\"“”„«»`‹›<>]+"
_NAMED = late_pattern(r"--?[\w-]+=(?=.)|[A-Za-z_][\w.-]{1,40}[=:](?=[^/:=].{3})|[a-z]:(?=[^/:=].{3})")
_CUT = late_pattern(r"[,;:，。](?=\d{1,2}$)")
_CHUNK = late_pattern(
    rf"{_QUOTED}|(?P<number>{_NUMBER})|(?P<code>{_CODE})|(?P<word>{_WORD})|(?P<wide>[{_IDEOGRAPH}]{{2,24}})"
)
_OPENING, _TRAILING = "([{<*_'‘‚\\|:,;=", ".,;:()]}*\\>'’?!|"
_PHRASE = late_pattern(
    r"[^\W\d_]+(?:['’-][^\W\d_]+)*(?: [^\W_]+(?:['’-][^\W_]+)*){1,9}(?=[.!?]?[)\"'`”»]?\s*(?:$|\n|[,;(–—。，（]))"
)
_PLAIN_FORM = late_pattern(
    r"--?[A-Za-z].*|[\w.+%-]+@[\w-]+(?:\.[\w-]+)+|[a-z][a-z0-9+.-]{1,20}://.*|www\..*|(?:~|\.{1,2})?/.*|[A-Za-z]:\\.*"
    r"|(?:[0-9A-Fa-f]{2}:){3,}[0-9A-Fa-f]{2}|0x[0-9a-fA-F]{1,40}|[A-Za-z][\w.-]*=\w{0,3}|AAAA[BCDE]3Nza\S{20,}|[A-Za-z_][\w.-]{0,40}=(?:-?\d{1,4}|0x[0-9a-fA-F]+)|\d{1,4}[-./:]\d{1,2}[-./:T]\d{1,4}(?:[:T]\d\d)*Z?|v?\d+(?:\.\d+)+|(?:X|Content|Accept|Set)-[A-Z][\w-]+"
    r"|(?:ssh|ecdsa|sk|rsa|aes|sha|hmac|curve|ed|chacha|diffie)-?\d*-.*|[A-Z]{2,4}-[A-Z][a-z]+|\w+(?:\(\)|\.\w+\(.*)"
)
_CIRCUIT = late_pattern(
    r"gpio|header|board|pinout|connector|arduino|esp\d|bcm|jumper|led\b|mcu|raspberry|servo|sensor|relay|uart|i2c|spi\b"
    r"|solder|platine|broche|belegung|version|release|commit|dependency|map\b|stecker|контакт|引脚|ピン配置|针脚",
    re.IGNORECASE,
)
_SYMBOL = late_pattern(r"[^\w\s./:-]")
_ESCAPE = late_pattern(r"x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}")
_LONG = 16
# Names in programs for values that are no secret: id=…, "ETag": "…", max-age=…
_CALLED_SO = late_pattern(
    r"(?i)(?:^|[^a-z])(?:[\w.-]*(?:uu|gu|trace|span|request|user|order|device|tenant|build|run|job)[_-]?id"
    r"|(?<!secret[ _-])(?<!api[ _-])(?<!key[ _-])id|uid|pid|rev|etag"
    r"|[\w-]*(?:hash|digest|md5|sha\d{0,3}|checksum|fingerprint)|addr|max-age|lastmodified|timestamp)[\"']?\s?[:=：]\s?[\"']?$"
    r"|(?:^|[^a-z])(?:address|age|server|host|hostname|data source"
    r"|database|initial catalog|port|version|build|key_name|timeout"
    r"|retry|minlen|size|count|limit|offset|page|date|time|qid|crid|ref|path|url|line|class|style|href|src|rel|type|help|title)=[\"']?$"
    r"|\b(?:ObjectId|UUID|b64\w{6}|atob|btoa)\([\"']?$"
)
_JOINED_SETTINGS = late_pattern(r";[A-Za-z][\w ]{1,30}(?:=|$)|;[A-Z]:")
_ARMOUR = late_pattern(r"-----BEGIN (?:[A-Z0-9 ]{0,30}PUBLIC|PGP (?:SIGNATURE|MESSAGE)|[A-Z0-9 ]{0,20}CERTIFICATE)")
_PUBLIC_KEY, _KEY = late_pattern(r"(?:ssh-|ecdsa-)[\w-]{2,30} [\w+/=]*$"), 800
_ARMOURED = 6 * 1024
# A number that identifies something: "customer no. 5793", 伝票番号は
_OF_NUMBER = late_pattern(
    r"(?:\s|^)(?:no|nr|num|number|id|nummer|número|numero|numéro|n°|nº|№|номер|numer|numarası|no'su|is|ist|est|es|é|è)\.?$"
    r"|[-\s]?(?:nummer|nr|numarası|号码|号|編號|番号|번호)$|[はがを是为為은는]$"
)
_SENTENCE = 60
_ANSWERED = late_pattern(r"[\"”»“」]\s{0,2}[=:：→]")
_LEFT_OF = " \t:：=#.*_`\"'“„«「『(（[№"
_HASHED = late_pattern(
    r"(?i)check_?sum|digest|etag|narhash|content-md5|sha\d{3}|\brev\b|acme-challenge|\bTXT\b|merkle"
    r"|fingerprint|commit|reference|signature made|using \w+ key|gpg:\s"
    r"|shasum|integrity|ssh-rsa|public"
    r"|prüfsumme|empreinte|huella|impronta|somme de contrôle|suma de"
    r"|отпечат|контрольная сумма|校验|指纹|哈希|ハッシュ|チェックサム"
)
# What a browser draws (SVG paths), and how it identifies itself.
_DRAWN_FORM = late_pattern(r"Mozilla/\d|[Mm]-?\d[\d.]*[ ,]?-?\d[\d.]*[ ,]?[A-Za-z]-?\d")
_DAY = late_pattern(r"20\d\d-[01]\d-[0-3]\d")
_IDENTIFIER = late_pattern(r"[^\W\d]\w*(?:\.\w+)+")
_IDEOGRAPHIC = late_pattern(rf"[{_IDEOGRAPH}]")
_OPENS = frozenset({Noun.PIN, Noun.CODE})
_DIGEST = late_pattern(r"(?i)(?:sha\d{1,3}|md5)[:-]$")
_CALLED = late_pattern(r"\w\(|\)\.|=>|::|->|\w\[\w*\]|[({]$")
_STRONG = frozenset({Noun.PASSWORD, Noun.PIN, Noun.KEY, Noun.CODES})
_JOINTS = (":", "：", "=", "＝", "→", "->", "=>", "—", "–", " -")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be a secret: a bare word, a quoted text, a number, or the words up to the end of a line.

    `before` and `after` are the nearest nouns, `earlier` other nouns before; `thing` and `later` the nearest things
    that a secret opens, before and after.
    """

    start: int
    end: int
    form: str
    before: Mention | None
    after: Mention | None
    earlier: tuple[Mention, ...] = ()
    thing: Mention | None = None
    later: Mention | None = None

    @property
    def nouns(self) -> tuple[Mention, ...]:
        """Return all nouns around the span."""
        return tuple(mention for mention in (self.before, *self.earlier, self.after) if mention)


def candidates(text: str, found: Sequence[Mention]) -> Iterator[Candidate]:
    """Yield the candidates within reach of the nouns, in order."""
    nouns = [one for one in found if one.noun is not Noun.THING]
    things = [one for one in found if one.noun is Noun.THING]
    tells = vocabulary().tells
    general = _generalities(text)
    starts, thing_starts = [one.start for one in nouns], [one.start for one in things]
    for first, last in _windows(text, found):
        at = first
        while (chunk := _CHUNK.search(text, at, last)) is not None:
            at = max(chunk.end(), at + 1)
            start, end, form = _span(text, chunk)
            number = bisect_right(starts, start)
            if end <= start or (number and form != "quoted" and nouns[number - 1].end >= end):
                continue
            before, after, earlier = _beside(nouns, number, start, end)
            place = bisect_right(thing_starts, start)
            thing, later, _ = _beside(things, place, start, end) if things else (None, None, ())
            one = Candidate(start, end, form, before, after, earlier, thing, later)
            if not (before or after or thing or later) or _is_near(general, start, end):
                continue
            if _may_be(text, one):
                yield one
            if (
                form == "word"
                and before
                and text[start:end].lower() not in tells
                and _is_led(text, start)
                and (phrase := _PHRASE.match(text, start))
                and not _tells_of_another(text, phrase)
            ):
                yield replace(one, end=phrase.end(), form="phrase")


def _is_near(places: Sequence[int], start: int, end: int) -> bool:
    number = bisect_right(places, end)
    return number > 0 and start - places[number - 1] <= _SENTENCE


def _span(text: str, chunk: re.Match[str]) -> tuple[int, int, str]:
    if chunk["quote"]:
        return chunk.start("inner"), chunk.end("inner"), "quoted"
    return *_trimmed(text, *chunk.span()), chunk.lastgroup or ""


def _beside(
    found: Sequence[Mention], number: int, start: int, end: int
) -> tuple[Mention | None, Mention | None, tuple[Mention, ...]]:
    """Return the nearest mention before a span, the nearest after, and others before; `number` begin before it."""
    first, last = max(0, number - 4), number
    while first < last and found[first].end < start - REACH_BEHIND:
        first += 1
    if first < last and found[last - 1].end > start:
        last -= 1
    after = found[number] if number < len(found) else None
    if after and not 0 <= after.start - end <= REACH_AHEAD:
        after = None
    if first >= last:
        return None, after, ()
    return found[last - 1], after, tuple(found[first : last - 1])


def _windows(text: str, found: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for one in found:
        start = max(text.rfind("\n", max(0, one.start - REACH_AHEAD), one.start) + 1, one.start - REACH_AHEAD, 0)
        end = min(len(text), one.end + REACH_BEHIND)
        if start > last:
            if last >= 0:
                yield first, last
            first = start
            while first and text[first - 1].isalnum() and start - first < REACH_AHEAD:
                first -= 1
        last = end
    if last >= 0:
        yield first, last


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _OPENING:
        start += 1
    if named := _NAMED.match(text, start, end):
        start = named.end()
    while start < end and text[start] in _OPENING:
        start += 1
    if "(" in text[start:end] and ")" not in text[start:end] and text[end : end + 1] > "\u3000":
        end = text.index("(", start)
    if cut := _CUT.search(text, start, end):
        end = cut.start() if text[end : end + 1] > "\u3000" else end
    while (
        end > start
        and text[end - 1] in _TRAILING
        and not (text[end - 1] in "!?" and text[end - 2 : end - 1].isalnum())
    ):
        end -= 1
    return start, end


def _is_led(text: str, start: int) -> bool:
    """Return whether the text before announces a value: a colon, an arrow, or a verb such as "is"."""
    bare = _bare(text, start)
    if bare.endswith(_JOINTS):
        return True
    words = vocabulary()
    word = last_word(bare)[0].lower()
    return (
        word in words.tells
        or word in words.leads
        or word in words.small
        or bare[-1:] in words.tells
        or bare[-2:] in words.tells
        or bare[-3:] in words.tells
    )


def _tells_of_another(text: str, phrase: re.Match[str]) -> bool:
    """Return whether words after "of" are whose secret it is, and tell it themselves: "the hut is ..."."""
    bare, tells = _bare(text, phrase.start()), vocabulary().tells
    is_value = bare.endswith(_JOINTS) or last_word(bare)[0].lower() in tells
    return not is_value and not tells.isdisjoint(phrase[0].lower().split())


def _bare(text: str, start: int) -> str:
    return text[max(0, start - 40) : start].rstrip(" \t\n\r>*_`\"'“„«「『(（[{")


def _may_be(text: str, one: Candidate) -> bool:
    value = text[one.start : one.end]
    is_mere_day = _DAY.fullmatch(value) and not _bare(text, one.start).endswith(_JOINTS)  # "key rotates 2026-03-24"
    if is_mere_day or key_of(value) in vocabulary().named or _DRAWN_FORM.match(value) or _is_question(text, one):
        return False
    if one.form == "word" and not _is_word(text, value, one):  # first, because it rejects most words
        return False
    if one.form not in {"phrase", "wide"} and _is_of_another(text, value, one):
        return False
    if _is_unnamed(one) and not _is_chosen(value, one):
        return False
    if one.form in {"number", "code"}:
        return _is_number(text, one)
    return one.form != "wide" or (one.before is not None and _is_led(text, one.start))


def _is_question(text: str, one: Candidate) -> bool:
    """Return whether a quotation asks for a secret, or has its answer behind it; a passphrase may end so too."""
    if one.form != "quoted" or text[one.end - 1] not in "?？":
        return False
    return bool(_ANSWERED.match(text, one.end)) or any(True for _ in mentions(text[one.start : one.end]))


def _is_unnamed(one: Candidate) -> bool:
    """Return whether no noun beside a candidate names a secret."""
    return all(mention is None or mention.noun is Noun.UNNAMED for mention in (one.before, one.after, *one.earlier))


def _is_of_another(text: str, value: str, one: Candidate) -> bool:
    """Return whether a value is identified as something else: an id, a digest, a number of something, a field."""
    head = text[max(0, one.start - 60) : one.start]
    if head.rstrip(" \"'")[-1:] in {":", "=", "：", "("} and _CALLED_SO.search(head):
        return True
    if _is_named(value, one.form):
        return True
    if len(value) >= _LONG and looks_drawn(value) and (_HASHED.search(head) or _is_armoured(text, one.start)):
        return True
    return not any(map(str.islower, value)) and any(map(str.isdigit, value)) and _is_number_of(head)


@remembered
def _is_named(value: str, form: str) -> bool:
    """Return whether a value is a version reference, or part of a connection string."""
    return is_reference(value) or (form == "word" and bool(_JOINED_SETTINGS.search(value)))


def _is_number_of(head: str) -> bool:
    """Return whether the words before a number say what it is the number of."""
    head = f" {head.lower()}".replace("\n", " ").replace("(", " ").rstrip(_LEFT_OF)
    for _ in range(3):
        if found := _OF_NUMBER.search(head):
            head = head[: found.start()].rstrip(_LEFT_OF)
    return head.endswith(_numbers())


@functools.cache
def _numbers() -> tuple[str, ...]:
    return tuple(f" {word}" if word < "\u3000" else word for word in vocabulary().numbers)


def _generalities(text: str) -> list[int]:
    """Return the places where a text speaks of what most people choose."""
    lowered = text.lower()
    return sorted(
        match.start() for one in vocabulary().general if one in lowered for match in re.finditer(one, lowered)
    )


def _is_armoured(text: str, start: int) -> bool:
    """Return whether a place is inside a public key, a certificate or a signature."""
    head = text.rfind("-----BEGIN ", max(0, start - _ARMOURED), start)
    if head >= 0 and _ARMOUR.match(text, head) and "-----END" not in text[head:start]:
        return True
    first = max(0, start - _KEY)
    spoken = text.find("ssh-", first, start) >= 0 or text.find("ecdsa-", first, start) >= 0
    return spoken and bool(_PUBLIC_KEY.search(text, first, start))


def _is_number(text: str, one: Candidate) -> bool:
    """Return whether a number may be a PIN: not of a circuit or a version; with a letter only near a keypad."""
    if one.form == "code" and not any(mention.noun in _OPENS for mention in one.nouns):
        return False
    before = one.before or one.thing
    first, last = max(0, before.start - 30) if before else one.start, min(len(text), one.end + 24)
    return not _CIRCUIT.search(text, first, last)


def _is_word(text: str, word: str, one: Candidate) -> bool:
    before = one.before or one.thing
    if word.isalpha() and word.islower() and not _is_tied(text, word, one, before):
        return False
    behind = text[max(0, one.start - 8) : one.start]
    if (behind.endswith((":", "-")) and _DIGEST.search(behind)) or (behind.endswith("\\") and _ESCAPE.match(word)):
        return False
    is_called = text[one.end : one.end + 1] == "(" and _IDENTIFIER.fullmatch(word)
    return not is_called and not _is_other(word, one)


def _is_tied(text: str, word: str, one: Candidate, before: Mention | None) -> bool:
    """Return whether a lower-case word, which has no look of its own, is where a value belongs."""
    return len(word) > 3 and before is not None and (one.start - before.end < 4 or _is_led(text, one.start))


def _is_chosen(value: str, one: Candidate) -> bool:
    """Return whether a value looks chosen as a secret by itself, where only a thing is named: things have others."""
    form = one.form
    if form == "number":
        return not value.isdigit() or bool(one.nouns and (one.thing or one.later))
    if form == "word" and one.nouns and strength(value) >= UNUSUAL:
        return True
    mixed = any(map(str.isupper, value)) + any(map(str.isdigit, value)) + bool(_SYMBOL.search(value))
    return form == "quoted" or (form == "word" and mixed > 1)


def _is_other(word: str, one: Candidate) -> bool:
    """Return whether a word is clearly something else: an address, a date, a call, the number of an account."""
    if _is_plain(word):
        return True
    return len(word) >= _LONG and looks_drawn(word) and _STRONG.isdisjoint(mention.noun for mention in one.nouns)


@remembered
def _is_plain(word: str) -> bool:
    """Return whether a word alone is clearly something else."""
    if len(word) < 3 or _PLAIN_FORM.fullmatch(word) or is_placeholder(word) or ("-" in word and is_technical(word)):
        return True
    return is_call(word) and word < "\u3000" and not _IDEOGRAPHIC.search(word) and bool(_CALLED.search(word))
