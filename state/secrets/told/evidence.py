"""Evidence: a value that may be a name of somebody or something is only a secret if the text says so."""

from state.secrets.languages import Noun, vocabulary
from state.secrets.told.candidates import Candidate
from state.secrets.told.judge import is_worded
from state.secrets.told.mentions import WORDS, Mention, class_of
from state.secrets.value import last_word, looks_drawn, remembered
from state.text.patterns import late_pattern

# Words of letters: Zhang, O'Connor, Lars-Erik, honeycomb, orange-bicycle.
_LETTERS = late_pattern(r"[^\W\d_]+\.?(?:[,'’-]{1,2}[^\W\d_]+\.?)*")
# Hosts, regions, halls, rooms: db-prod-03, eu-north-1, Lyon-3, DC01, B-204, k8s-node-11, web01, Auth0, 3rd.
_PLACE = late_pattern(
    r"[^\W\d_]+-\d|\d[A-Z][a-z]+|[A-Z]-?\d{1,4}|(?:(?:[a-z]+\d?|\d{1,2}[a-z]{2})-)+[a-z]+\d{0,2}"
    r"|[A-Za-z]?[a-z]{1,5}\d|[a-z]{2,5}\d\d|(?:[A-Z\d]+-)*(?:[A-Z]+\d{1,2}|[A-Z]+|\d{1,4})|(?:[a-z\d]+-)+\d{1,3}[a-z]?|\d{1,2}[a-z]{2}|\d{1,4}"
    r"|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,5}"
)
_LONGEST = 200
_NUMBER = late_pattern(r"[\d #*–-]+")
_YEAR = late_pattern(r"(?:19[5-9]|20[0-4])\d")
_PAIRED = late_pattern(r"\b\w+:$|\s(?:as|als|como|come|que|como|под|som)\s\S+\s(?:with|mit|con|com|avec|с|med)\s$")
_CALLED = late_pattern(r"[^\W\d_a-z][\w.'’-]+ [^\W\d_a-z][\w.'’-]+(?:,| \() ?$")
_NAMED = frozenset({Noun.PASSWORD, Noun.PIN, Noun.PHRASE, Noun.CODES, Noun.KEY})
_OPENING = " \t\r\n>*_`\"'“„«「『(（[{‘‚"
_JOINTS = (":", "：", "=", "＝", "→", "->", "=>", "—", "–", " -", "/")
_ENDS = late_pattern(
    r"[\"'`“”»›」』’‘*_)\]]*(?:\s*$|\s*[.,;:!?)(。，、；！）—–\n/|&·]|\s+[-–—]\s"
    r"|\s+(?:and|und|y|e|et|и|en|och|i)\s|\s?(?:です|でした|に|で|を|と|了|，|入|登))"
)
_STOP = late_pattern(r"[.!。！]\s|\n\s*\n")
_PLURAL = tuple("words ñas nhas wörter oorden пароли keys codes phrases motsdepasse claves pins".split())
# Words for the answer to a security question, if the question precedes it.
_ANSWERS = frozenset(
    "respuesta réponse risposta resposta antwoord antwort ответ відповідь svaret cevap cevabı odpowiedź"
    " 答え 答えは 答案".split()
)
_ROOMS = frozenset(
    "room desk floor hall dock bay gate raum zimmer saal halle salle sala despacho stanza aula kamer lokaal zaal"
    " pokój rum sal кабинет каб комната oda phone tel telefon teléfono telefono telefone тел".split()
)
_DESKS = frozenset(
    "desk helpdesk hotline office support line team contact owner holder kontakt büro bureau contacto"
    " contatto".split()
)
_FOR = frozenset(
    "of for to at in on with de du des da do dos das di del della dello der dem den die das für von vom zum zur im am"
    " para pour per sur en no na у от для к за на в d des l la le el il al van voor op till av för på dla w z".split()
)
_BY = frozenset(
    "by with from in on at von bei durch mit im am par chez avec por con com en van bij door met av".split()
)
_OF = frozenset("of for on at von für vom de di du del della pour para от для".split())
_WHOSE = _BY | _OF | {"da", "do"}


def has_evidence(text: str, one: Candidate) -> bool:
    """Return whether a value looks chosen or random, or the text says explicitly that it is a secret."""
    value = text[one.start : one.end].strip()
    if _NUMBER.fullmatch(value):
        return _is_number(text, one)
    return not is_plain_value(value) or _is_pair(text, one, value) or _is_said(text, one, value)


@remembered
def is_plain_value(value: str) -> bool:
    """Return whether a value could also be a name of somebody or something, or a sentence."""
    return len(value) <= _LONGEST and all(
        _LETTERS.fullmatch(word) or (_PLACE.fullmatch(word) and not looks_drawn(word)) for word in value.split()
    )


def _is_number(text: str, one: Candidate) -> bool:
    """Return whether a number opens a door or belongs to a card, rather than being a year, a room or an extension."""
    if _CALLED.search(text, max(0, one.start - 60), one.start):
        return False
    if last_word(text[max(0, one.start - 20) : one.start])[0].lower() in _ROOMS:
        return False
    if one.before and not _DESKS.isdisjoint(WORDS.findall(text[one.before.end : one.start].lower())):
        return False
    if not _YEAR.fullmatch(text, one.start, one.end) and any(
        noun.noun in _NAMED or noun.noun is Noun.CODE for noun in one.nouns
    ):
        return True
    beside = one.before is not None and not text[one.before.end : one.start].strip(" ,")
    return beside or _is_led(text, one.start, one.nouns)


def _is_pair(text: str, one: Candidate, value: str) -> bool:
    """Return whether a lower-case value is the second of a pair: "as till2 with very-nice"."""
    return value.islower() and "-" in value and bool(_PAIRED.search(text, max(0, one.start - 60), one.start))


def _is_said(text: str, one: Candidate, value: str) -> bool:
    """Return whether the text says that this value is the secret: "the password for the door is"."""
    noun = next((noun for noun in (one.before, *reversed(one.earlier)) if noun and noun.noun in _NAMED), None)
    if noun is None or _is_other_noun(text, noun, one, value):
        return False
    has_capital = any(map(str.isupper, value))
    if has_capital and _tells_of_somebody(text, noun, one, value):
        return False
    between = text[noun.end : one.start]
    is_word = " " not in value
    is_whole = is_word or has_capital or one.form == "quoted"
    if not between.strip(_OPENING):
        ends = not (one.form == "word" and value.isalpha()) or _ENDS.match(text, one.end)
        return bool(ends) and (is_whole or between.rstrip("\n") != " ")
    if not _is_led(text, one.start, one.nouns, but=_WHOSE if has_capital else _OF, tells=not is_whole):
        return False
    if "?" in between or "？" in between:
        return is_word or not has_capital
    return not _STOP.search(between) and _goes_on(text, noun, between, is_name=has_capital or is_word)


def _is_other_noun(text: str, noun: Mention, one: Candidate, value: str) -> bool:
    """Return whether a noun cannot have this value: a product's name, an answer to nothing, a PIN of letters."""
    before = text[max(0, noun.start - 1) : noun.start]
    if text[noun.start].isupper() and (before == "1" or (noun.key == "pass" and before.islower())):
        return True  # 1Password, LastPass
    if noun.key in _ANSWERS and noun is one.before and not one.earlier:
        return True
    words = value.replace("-", " ").split()
    is_of_digits = noun.noun is Noun.PIN or (noun.noun is Noun.CODES and " " in value)
    return is_of_digits and all(word.isdigit() or word[1:].islower() for word in words)


def _tells_of_somebody(text: str, noun: Mention, one: Candidate, value: str) -> bool:
    """Return whether a capitalised value belongs to a sentence: "passwords: Ada", "kept by Ada", "Ada knows"."""
    words = value.split()
    if noun.key.endswith(_PLURAL) or not _ENDS.match(text, one.end):
        return True
    if last_word(text[max(0, noun.start - 30) : noun.start])[0].lower() in vocabulary().about:
        return True
    told = any(word.lower() in _BY or word == "to" for word in words[:-1])
    return told and not (is_worded(noun.key) and value[0].islower() and "by" not in words)


def _goes_on(text: str, noun: Mention, between: str, *, is_name: bool) -> bool:
    """Return whether what follows a noun still belongs to it: "password for …", not "password contact"."""
    known, words = vocabulary(), [word.lower() for word in WORDS.findall(between)]
    first = between[:1]
    if first.isalpha() and (first < "\u3000" or (is_name and between.strip(_OPENING + "：:") not in known.tells)):
        return False
    if not is_name or not words or first >= "\u3000":
        return True
    if any(word in known.about for word in words):
        return False
    last = last_word(text[noun.start : noun.end])[0].lower()
    return (
        between.lstrip(" ")[:1] in "(:?,="
        or class_of(words[0]) in {"tells", "leads", "small"}
        or not {words[0], last}.isdisjoint(_FOR)
    )


def _is_led(
    text: str, start: int, nouns: tuple[Mention, ...], but: frozenset[str] = frozenset(), *, tells: bool = False
) -> bool:
    """Return whether the text before a value announces it: a colon, "is", the noun; without `tells`, also "with"."""
    first = max(0, start - 60)
    bare = text[first:start].rstrip(_OPENING)
    if not bare or bare.endswith(_JOINTS) or any(noun.end == first + len(bare) for noun in nouns):
        return True
    words = vocabulary()
    if bare[-1] >= "\u3000" or bare[-1:] in words.tells:
        return any(bare[-size:] in words.tells or bare[-size:] in words.leads for size in (3, 2, 1))
    word, begin = last_word(bare)
    kind = class_of(word.lower())
    if kind == "small" and not tells:
        earlier, _ = last_word(bare[:begin].rstrip())
        kind = class_of(earlier.lower()) if earlier else kind
    return (kind == "tells" or (kind == "leads" and not tells)) and word.lower() not in but
