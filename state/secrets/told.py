"""What is told in sentences: "the password is now …", „Das Passwort lautet …“, "log in as ada with …", 密码是….

Behind (and, more strictly, before) a noun every word is looked at. The closer it is tied to the noun, by a word of
telling, a colon or quotes, the less it must look like a secret.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.value import (
    CHOSEN,
    EVIDENT,
    PLAIN,
    UNUSUAL,
    are_drawn,
    is_call,
    is_code,
    is_name,
    is_placeholder,
    looks_drawn,
    strength,
)

_FAR, _BEFORE, _SHORTEST = 140, 70, 4
_WIDE = "\u3001-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_PIECE = re.compile(
    rf"(?P<open>\\{{0,3}}[\"'`“„”«»‹「『‘‚（(【《\[]+|\*{{1,2}}|<code>)?(?P<word>[^\s{_WIDE}“”„«»`]+)"
)
_CLOSING = {
    "“": "”",
    "„": "“”",
    "”": "”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "「": "」",
    "『": "』",
    "‘": "’",
    "‚": "‘’",
    "（": "）",
    "(": ")",
    "【": "】",
    "《": "》",
    "[": "]",
}
_END = re.compile(r"[.!?…](?:\s|$)|[。！？]|\n\s*\n")
_LAST_WORD = re.compile(r"([^\W_]+(?:['’][^\W_]+)?)[\s>*_]*$")
_TRAILING = ".,;:)]}*\\>\"'`?’"
_HEX = re.compile(r"[0-9a-fA-F-]+")
_SAID, _LED, _NEAR = "said", "led", "near"
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,/+А-яЁё-])(?<!\d:)[*#]?(?:\d(?:[ -]?\d| – \d){2,9}[#*]?"
    r"|\d{4,6}[A-Z]|\d{2,4}[A-GJ-Za-gj-zА-я]\d{1,5})"
    r"(?![A-Za-z0-9_%°€$А-яЁё]|[.,:/-]\d)"
)
_CLOSED = re.compile(r"\\{0,3}[\"'`”“»」』*)\]]*")
_WIDE_NOUN = re.compile(r"[\u3040-\u9fff\uac00-\ud7a3]")
_ALONE = re.compile(
    r"(?=です|だ[。よ]|である|に変更|に設定|でお願)|[\"'`”“»*)]{0,3}\s*(?:$|\n|\\n|[,;、，。.)|/!](?:\s|$|\\n|[\u3000-\u9fff]))"
)
_OTHER = re.compile(r"[\w)]\\{0,3}[\"'] ?[:=,]|[{};]|<\w")
_ANSWER = re.compile(r"\?[^\n]{0,30}\n[^\n]{0,40}[:>,]\s*$")
_PHRASE = re.compile(
    r"[^\W_]+(?:['’][^\W_]+)?(?: [^\W_]+(?:['’][^\W_]+)?){2,7}[!?]?(?=[.]?[\"'`”»)]?\s*(?:$|\n|\\n|, |;))"
)
_PHRASE_NOUN = re.compile(r"phrase|frase|фраз|zin\b|satz|fras\b|口令|フレーズ", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")
_CIRCUIT = re.compile(
    r"gpio|header|board|pinout|connector|chip|arduino|esp\d|bcm|jumper|led\b|mcu|breadboard|raspberry|servo|sensor|relay|uart|i2c|spi"
    r"|solder|platine|broche|version|release|commit|dependency|map|marker|stecker|контакт|引脚|ピン配置|针脚",
    re.IGNORECASE,
)
_WITH = frozenset("with mit avec con com с със met med z ile で 用".split())
_NEEDED = {_SAID: UNUSUAL, _LED: CHOSEN, _NEAR: EVIDENT}


@dataclass(frozen=True, slots=True)
class Place:
    """A noun in a text, and how far the text around it is its own. `about`: talk about it stands around."""

    noun: Noun
    start: int
    end: int
    floor: int
    limit: int
    about: bool = False


def told(text: str, place: Place) -> Iterator[tuple[int, int]]:
    """Start and end of each secret of a noun in a sentence."""
    limit = min(place.limit, place.end + _FAR)
    found = False
    if limit - place.end >= _SHORTEST:
        for start, end in _behind(text, place, limit):
            found = True
            yield start, end
    if not found and place.noun in {Noun.PASSWORD, Noun.KEY, Noun.PIN, Noun.LOGIN}:
        floor = max(
            place.floor, place.start - _BEFORE, text.rfind("\n", max(0, place.start - _BEFORE), place.start) + 1
        )
        if place.start - floor >= _SHORTEST:
            yield from _ahead(text, place, floor)


def _behind(text: str, place: Place, limit: int) -> Iterator[tuple[int, int]]:
    closed = _CLOSED.match(text, place.end)
    at = lead_from = closed.end() if closed else place.end
    count = 0
    while at < limit and (piece := _PIECE.search(text, at, limit + 200)) and piece.start() < limit:
        count += any(map(str.isalnum, piece["word"]))
        start, end, quoted = _body(text, piece)
        word = text[start:end]
        tie = _tie(text[lead_from : piece.start()], place, count, opened=bool(piece["open"]))
        lead = text[lead_from : piece.start()]
        if tie is _SAID and (words := _PHRASE.match(text, start)) and _is_phrase(words[0], lead, place, text):
            yield words.span()
            return
        wide = not text[place.end - 1].isascii() and _WIDE_NOUN.match(text, place.end - 1)
        alone = (_is_label(lead) or bool(wide)) and bool(_ALONE.match(text, end))
        if word and _fits(word, tie, place.noun, quoted=quoted, alone=alone):
            yield start, end
            lead_from = end
            at = max(end, piece.end()) if quoted else end
        else:
            at = piece.end("word")
        at = max(at, piece.start() + 1)


def _body(text: str, piece: re.Match[str]) -> tuple[int, int, bool]:
    """Start and end of what a piece holds, and whether it stands between quotes."""
    start, opening = piece.start("word"), piece["open"]
    if opening:
        closing = _CLOSING.get(opening[-1], opening if opening.startswith("\\") else opening[-1])
        ends = [
            end
            for end in (
                text.find(one, start, start + 120)
                for one in ([closing] if len(closing) < 2 or "\\" in closing else closing)
            )
            if end >= 0
        ]
        end = min(ends, default=-1)
        if end > start and "\n" not in text[start:end]:
            return start, end, opening[-1] not in "([（<"
    end = piece.end("word")
    while end > start and text[end - 1] in _TRAILING and not (text[end - 1] == "?" and text[end : end + 1].isalnum()):
        end -= 1
    return start, end, False


def _is_label(lead: str) -> bool:
    bare = lead.rstrip(" \t\n*_`\"'")
    return bare.endswith((":", "：", "=", "→", "->")) and "\n" not in bare and bare.count(":") <= 1


def _is_phrase(words: str, lead: str, place: Place, text: str) -> bool:
    """Whether all that follows on the line is a passphrase."""
    if place.noun is not Noun.PASSWORD or text[place.start - 1 : place.start] == "-":  # the help of a program
        return False
    parts = words.split()
    if _PHRASE_NOUN.search(text[place.start : place.end]):
        known = vocabulary().about
        return bool(lead.strip()) and not any(part.lower() in known for part in parts)
    return _is_label(lead) and are_drawn(parts)


def _is_far(lead: str, noun: Noun) -> bool:
    """Whether another name, or another line, stands between a noun and a word."""
    if _OTHER.search(lead):
        return True
    return noun is Noun.KEY and "\n" in lead and not lead.rstrip(" \t\n\r>*`").endswith((":", "："))


def _tie(lead: str, place: Place, count: int, *, opened: bool) -> str:  # noqa: C901 - each tie is one line
    """How a word is tied to the noun, by what stands between them."""
    words = vocabulary()
    bare = lead.rstrip(" \t\n\r>*_`\"'“„«「『(（[{")
    tie = _NEAR
    last = _LAST_WORD.search(bare)
    word = last[1].lower() if last else ""
    if last and word in words.small and word not in words.tells and word not in words.leads:  # "is the", "es el"
        last = _LAST_WORD.search(bare[: last.start()].rstrip())
        word = last[1].lower() if last else word
    if bare.endswith((":", "：", "=", "＝", "→", "->", "=>")) or word in words.tells or _ends(bare, words.tells):
        tie = _SAID
    elif (
        not bare.strip()
        or word in words.leads
        or _ends(bare, words.leads)
        or bare.endswith((",", "，", "、", "–", "—", "-", "/", "|"))
        or opened
    ):
        tie = _LED
    if _ANSWER.search(lead):
        return _LED if place.about else _SAID
    if _is_far(lead, place.noun) or "\n" in lead.strip():
        return _NEAR
    if (
        tie is _LED
        and not bare.strip()
        and (place.noun is Noun.PASSWORD or (place.noun is Noun.PIN and place.end - place.start > 3))
    ):
        tie = _SAID
    if tie is _LED and count >= 3 and place.noun is Noun.LOGIN and word in _WITH:
        return _SAID
    if tie is _LED and opened and (word in words.leads or not bare.strip()):
        tie = _SAID
    if tie is _LED and word in words.leads and count == 2 and not place.about:
        tie = _SAID
    if _END.search(lead):
        tie = {_SAID: _LED, _LED: _NEAR}.get(tie, _NEAR)
    if place.noun is Noun.LOGIN and count == 1 and _is_label(lead):
        return _NEAR  # the user, or the name of a network
    if place.about or place.noun is Noun.LOGIN:
        tie = {_SAID: _LED, _LED: _NEAR}.get(tie, _NEAR)
    return tie


def _ends(bare: str, words: frozenset[str]) -> bool:
    """Whether a text without spaces ends with one of the words."""
    tail = bare[-4:]
    return bool(tail) and not tail[-1].isascii() and any(tail[-size:] in words for size in range(1, len(tail) + 1))


def _fits(word: str, tie: str, noun: Noun, *, quoted: bool, alone: bool = False) -> bool:  # noqa: PLR0911
    if noun is Noun.KEY:
        return _is_key(word, tie)
    if any(character.isspace() for character in word):
        parts = word.split()
        return (
            quoted
            and tie is _SAID
            and not is_call(word)
            and "--" not in word
            and 2 <= len(parts) <= 8
            and not is_placeholder(word)
            and are_drawn(parts)
        )
    level = strength(word)
    if key_of(word) in vocabulary().nouns:
        return False
    if noun in {Noun.PIN, Noun.CODE} and tie is _LED:
        tie = _NEAR
    if tie is _SAID and noun is Noun.PASSWORD and level == PLAIN and (quoted or alone):
        return _is_odd(word)
    if (
        tie is _LED
        and level == UNUSUAL
        and noun is Noun.PASSWORD
        and any(map(str.isupper, word))
        and not word.isupper()
    ):
        return not is_code(word)
    if level < _NEEDED[tie]:
        return False
    if tie is not _SAID:
        return not _HEX.fullmatch(word) and (quoted or not is_code(word))
    return quoted or not is_call(word)


def _is_odd(word: str) -> bool:
    """Whether a plain word in quotes is no word of a form or a talk about passwords."""
    words = vocabulary()
    lowered = word.lower()
    return (
        not (lowered in words.about or lowered in words.small or lowered in words.tells or lowered in words.nouns)
        and are_drawn([word])
        and word.isalpha()
    )


def _is_key(word: str, tie: str) -> bool:
    if is_placeholder(word) or is_code(word.rstrip("=")) or is_name(word) or not looks_drawn(word):
        return False
    if tie is _SAID:
        return len(word) >= 12
    return len(word) >= 16 and not _HEX.fullmatch(word) and strength(word) == EVIDENT


def _ahead(text: str, place: Place, floor: int) -> Iterator[tuple[int, int]]:
    """As in "Tr0ub4dor&3 is the password": of the words before a noun the last one that looks like it."""
    words = vocabulary()
    pieces = list(_PIECE.finditer(text, floor, place.start))
    for piece in reversed(pieces[-8:]):
        if piece.start("word") == floor and floor and not text[floor - 1].isspace():
            continue
        start, end, quoted = _body(text, piece)
        if end > place.start:
            continue
        between = text[end : place.start].lower()
        if place.noun is Noun.LOGIN and between.strip():
            return
        close = all(
            word in words.tells or word in words.leads or word in words.small
            for word in re.findall(r"[^\W_]+", between)
        )
        if words.denies.intersection(re.findall(r"[^\W_]+", between)):
            return
        led = any(word in words.tells or word in words.leads for word in re.findall(r"[^\W_]+", between))
        first = re.match(r"\W*([^\W_]+)", between)
        close = close or bool(first and (first[1] in words.leads or first[1] in words.tells) and "," not in between)
        tie = (_SAID if led else _LED) if close and not _END.search(between) and not place.about else _NEAR
        word = text[start:end]
        if word and _fits(word, tie, place.noun, quoted=quoted) and not (tie is not _NEAR and place.noun is Noun.PIN):
            yield start, end
            return


def _number_ahead(text: str, place: Place) -> Iterator[tuple[int, int]]:
    """As in "4711 is the alarm code": nothing but small words between the two."""
    words = vocabulary()
    for number in _NUMBER.finditer(text, max(place.floor, place.start - 40), place.start):
        between = re.findall(r"[^\W_]+", text[number.end() : place.start].lower())
        small = all(word in words.tells or word in words.leads or word in words.small for word in between)
        if between and small and sum(map(str.isdigit, number[0])) >= 4:
            yield number.span()


def pins(text: str, place: Place, key: str) -> Iterator[tuple[int, int]]:
    """Start and end of the number of a PIN, or of the code of a door."""
    limit = min(place.limit, place.end + 60)
    least = 3 if key in {"cvv", "cvc", "prüfnummer", "cryptogramme"} else 4
    found = _NUMBER.finditer(text, place.end, limit + 12)
    number = next((one for one in found if least <= sum(map(str.isdigit, one[0])) <= 10), None)
    if (number is None or number.start() > limit) and place.noun is Noun.PIN and key != "pin":
        yield from _number_ahead(text, place)
    if (
        number is None
        or number.start() > limit
        or _CIRCUIT.search(text, max(0, place.start - 30), min(len(text), number.end() + 24))
    ):
        return
    lead = text[place.end : number.start()]
    tie = _tie(lead, place, 1, opened=lead.rstrip().endswith(("(", "`", '"', "„", "“", "「")))
    if tie is _NEAR and (key == "pin" or place.about or _YEAR.fullmatch(number[0]) or _END.search(lead)):
        return
    if tie is _LED and _YEAR.fullmatch(number[0]) and lead.strip():
        return
    if place.noun is Noun.CODE and (tie is _NEAR or not lead.strip()):
        return
    yield number.span()
