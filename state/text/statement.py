"""Statement: a short text read for comparison: its words in one form, and what limits or turns what they say.

Numbers, dates, clock times and units are written in one way, persons by their grammatical person; each word says
whether it names somebody, counts something, denies, or only links others. The language is that of the small words.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from state.text.languages.detection import language_of
from state.text.languages.loader import table_of
from state.text.languages.tables import Contrasts, Statements, Words
from state.text.words import UNSPACED, stem, stream_safe, visible

MOST_CHARACTERS = 2_000  # of a text that are read

_CONTRACTIONS = (
    (re.compile(r"\bcan't\b|\bcannot\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"(?<=[a-z])n't\b", re.IGNORECASE), " not"),
    (re.compile(r"(?<=\w)'(?:s|re|ve|ll|d|m)\b|(?<=s)'(?!\w)", re.IGNORECASE), ""),
    (re.compile(r"\b(l|d|j|n|s|c|qu|m|t|dell|all|nell|un|dall|sull)'(?=\w)", re.IGNORECASE), r"\1 "),
)
_MARKUP = re.compile(r"[\"“”„«»「」『』`*]")
_TOKEN = re.compile(
    rf"[-−]?\d+(?:[.,']\d+)*|[{UNSPACED}]|c\+\+|[cf]#|[^\W\d_](?:[^\W_{UNSPACED}]|[\u0300-\u036f])*|[%$€£¥+@#]"
)
_SYMBOLS = {"%": "percent", "$": "usd", "€": "eur", "£": "gbp", "¥": "jpy"}
_HAN_DATE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号]")
_YEAR_FIRST = re.compile(r"(?<!\d)((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DAY_FIRST = re.compile(r"(?<!\d)(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)?(?!\d)")
_CLOCK = re.compile(
    r"(?<![\w.:/-])(\d{1,2})(?:[:.h](\d\d)(?!\d))?\s*(a\.?m\.?|p\.?m\.?|o'clock|uhr|heures|часов|час|点|時)(?!\w)"
)
_CLOCK_DIGITS = re.compile(r"(?<![\w.:/-])(\d{1,2})[:h](\d\d)(?::00)?(?![\w:/-])")
_GROUPED = re.compile(r"-?\d{1,3}(?:[,.']\d{3})+")
_VALUE = re.compile(r"-?\d|[mdt]\d+$")
_ENDS = re.compile(r"[.!?:;。！？]\s*$")
_ASKS_UNSPACED = re.compile(r"[吗呢か][。.]?$")
_DENIES_UNSPACED = re.compile(
    r"不(?!同|过|過|错|錯|断|斷|仅|僅|但|管|如)|[没沒無无]|[别別](?!的)|未(?!来|來)|ない|ません|ずに|なし"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_AMBIGUOUS = frozenset(("may", "march", "mars", "mar", "mai", "sept", "second"))  # months when they have a capital
_HOURS = 12
_PUNCTUATION = frozenset(".,;:!?。，、；：！？'\"()[]_’‘“”„«»…–—-/%$€£¥°@#&") | frozenset("「」『』（）・·")


@dataclass(frozen=True, slots=True)
class Word:
    """A word in the form in which it is compared.

    `named` says that it names somebody or something, `may_name` that its capital may only be that of a beginning;
    a `label` is a single capital ("plan A"), a `link` says nothing by itself ("is", "the"), and what is `small` names
    nothing ("on", "all").
    """

    text: str
    named: bool = False
    may_name: bool = False
    number: bool = False
    label: bool = False
    denies: bool = False
    link: bool = False
    small: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A text as words in order, and what limits or turns what they say."""

    folded: str
    words: tuple[Word, ...]
    quantifiers: frozenset[str]
    daytimes: frozenset[str]
    possible: frozenset[str]
    reporting: frozenset[str]
    past: frozenset[str]
    persons: frozenset[str]
    single_valued: frozenset[str]
    many_valued: frozenset[str]
    changes: int  # how many expressions tell of a change
    adds: bool
    denials: int
    asks: bool
    signs: tuple[str, ...]  # those that are no ordinary punctuation: "<", "²"

    @property
    def meaning(self) -> tuple[str, ...]:
        """The words but articles and those that only link."""
        return tuple(word.text for word in self.words if not word.link)


def read_together(one: str, other: str) -> tuple[Statement, Statement]:
    """Two statements that are to be compared, in the language of both together."""
    language = language_of(f"{one} {other}")
    return read_statement(one, language), read_statement(other, language)


@lru_cache(maxsize=4_096)
def read_statement(text: str, language: str = "") -> Statement:
    """A text as a statement; without a language in that which it seems to be in."""
    language = language or language_of(text)
    lexicon = _lexicon(language)
    shown = _MARKUP.sub("", unicodedata.normalize("NFC", stream_safe(visible(text[:MOST_CHARACTERS])))).replace(
        "’", "'"
    )
    for pattern, plain in _CONTRACTIONS:
        shown = pattern.sub(plain, shown)
    folded = shown.casefold()
    cased = shown if len(shown) == len(folded) else folded
    words = tuple(_words(cased, folded, lexicon))
    texts = frozenset(word.text for word in words)
    return Statement(
        folded,
        words,
        quantifiers=lexicon.of("quantifiers", texts, folded),
        daytimes=lexicon.of("daytimes", texts, folded),
        possible=lexicon.of("possible", texts, folded),
        reporting=lexicon.of("reporting", texts, folded),
        past=lexicon.of("past", texts, folded),
        persons=frozenset(word for word in texts if word.startswith("§")),
        single_valued=lexicon.of("single_valued", texts, folded),
        many_valued=lexicon.of("many_valued", texts, folded),
        changes=len({match.group() for match in lexicon.change.finditer(folded)}),
        adds=bool(lexicon.additional.search(folded)),
        denials=sum(word.denies for word in words) + len(_DENIES_UNSPACED.findall(folded)),
        asks=folded.rstrip(" \"')").endswith(("?", "？", "؟")) or bool(_ASKS_UNSPACED.search(folded.strip())),
        signs=tuple(sorted(char for char in cased if not (char.isalnum() or char.isspace() or char in _PUNCTUATION))),
    )


def _words(cased: str, folded: str, lexicon: "_Lexicon") -> Iterator[Word]:
    plain = lexicon.pleasantries.sub(lambda match: " " * len(match.group()), folded)
    if not _TOKEN.search(plain):
        plain = folded
    found = list(_values(plain, lexicon))
    covered = list(plain)
    for start, end, _ in found:
        covered[start:end] = "\0" * (end - start)
    tokens = [(match.start(), match.end(), ()) for match in _TOKEN.finditer("".join(covered))]
    end_before = 0
    for start, end, values in sorted([*found, *tokens]):
        if values:
            yield from (Word(value, number=bool(_VALUE.match(value))) for value in values)
        else:
            begins = not end_before or bool(_ENDS.search(folded, end_before, start))
            yield _word(folded[start:end], cased[start:end], folded[start - 1 : start], lexicon, begins=begins)
        end_before = end


def _values(text: str, lexicon: "_Lexicon") -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Dates, clock times and the words of unspaced scripts that have another form, where they stand."""
    readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, ...]]], ...] = (
        (_HAN_DATE, lambda match: _date(match[1], match[2], match[3])),
        (_YEAR_FIRST, lambda match: _date(match[1], match[2], match[3])),
        (_DAY_FIRST, lambda match: _date(match[3], match[2], match[1])),
        (_CLOCK, lambda match: (_clock(match[1], match[2], match[3]),)),
        (_CLOCK_DIGITS, lambda match: (_clock(match[1], match[2], ""),)),
        (lexicon.unspaced, lambda match: (lexicon.forms[match.group()],)),
    )
    taken: list[tuple[int, int]] = []
    for pattern, read in readers:
        for match in pattern.finditer(text):
            start, end = match.span()
            if all(end <= begun or start >= ended for begun, ended in taken) and (values := read(match)):
                taken.append((start, end))
                yield start, end, values


def _date(year: str | None, month: str, day: str) -> tuple[str, ...]:
    return (f"m{int(month)}", str(int(day)), *((year,) if year else ())) if 1 <= int(month) <= _HOURS else ()


def _clock(hour: str, minute: str | None, half: str) -> str:
    number, half = int(hour), half.replace(".", "")
    number += _HOURS * ((half == "pm" and number < _HOURS) - (half == "am" and number == _HOURS))
    return f"t{number:02d}{minute or '00'}"


def _word(token: str, cased: str, before: str, lexicon: "_Lexicon", *, begins: bool) -> Word:
    if token in _SYMBOLS:
        return Word(_SYMBOLS[token])
    if _VALUE.match(token) or token[0] == "−":
        return Word(_number(token, before), number=True)
    stemmed, capital = stem(token), cased[:1].isupper()
    label = len(cased) == 1 and cased.isascii() and capital and cased != "I" and not (begins and cased == "A")
    if label:
        return Word(stemmed, named=True, label=True)
    if token in lexicon.persons:
        return Word("§" + lexicon.persons[token], small=True)
    form = "" if token in _AMBIGUOUS and not capital else lexicon.forms.get(token) or lexicon.forms.get(stemmed, "")
    if form or token in lexicon.small:
        denies, link = stemmed in lexicon.negators, token in lexicon.linking
        return Word(form or stemmed, number=bool(_VALUE.match(form)), denies=denies, link=link, small=not form)
    inside = any(char.isdigit() or char.isupper() for char in cased[1:])
    return Word(stemmed, named=inside or (capital and not begins), may_name=capital and begins and not inside)


def _number(token: str, before: str) -> str:
    token = token.replace("−", "-")
    if token[0] == "-" and before.strip():
        token = token[1:]  # a range, or a part of a name
    if _GROUPED.fullmatch(token):
        return re.sub(r"[,.']", "", token)
    return token.replace(",", ".").lstrip("0") or "0"


@dataclass(frozen=True, slots=True)
class _Lexicon:
    """What a language's tables say, as it is looked up."""

    forms: dict[str, str]  # of a word, or its stem, the form in which it is compared
    unspaced: re.Pattern[str]  # of these, those that stand without spaces
    persons: dict[str, str]
    linking: frozenset[str]
    small: frozenset[str]  # which name nobody, whatever their capitals
    negators: frozenset[str]
    pleasantries: re.Pattern[str]
    change: re.Pattern[str]
    additional: re.Pattern[str]
    rows: dict[str, tuple[frozenset[str], re.Pattern[str]]]

    def of(self, row: str, words: frozenset[str], folded: str) -> frozenset[str]:
        """The words of a row that stand in a text."""
        spaced, unspaced = self.rows[row]
        return (words & spaced) | frozenset(unspaced.findall(folded))


_ROWS = ("quantifiers", "daytimes", "possible", "reporting", "past", "single_valued", "many_valued")


@cache
def _lexicon(language: str) -> _Lexicon:
    tables, contrasts = table_of(language, Statements), table_of(language, Contrasts)
    groups = (*tables.months, *tables.days, *tables.numerals, *tables.equal)
    forms = {word: group[0] for group in groups for word in group}
    past = {*tables.past, *tables.possible}
    linking = frozenset({*tables.articles, *tables.linking} - past)
    return _Lexicon(
        forms={stem(word): form for word, form in forms.items()} | forms,
        unspaced=_any(sorted(filter(_UNSPACED.search, forms), key=len, reverse=True)),
        persons={word: group[0] for group in tables.persons for word in group[language != "en" :]},
        linking=linking,
        small=linking | past | {*contrasts.negators, *tables.quantifiers, *tables.prepositions, *tables.reporting},
        negators=frozenset(map(stem, contrasts.negators)),
        pleasantries=re.compile(tables.pleasantries.pattern),
        change=re.compile(tables.change.pattern),
        additional=re.compile(tables.additional.pattern),
        rows={row: _row(getattr(tables, row)) for row in _ROWS},
    )


def _row(words: Words) -> tuple[frozenset[str], re.Pattern[str]]:
    return frozenset(map(stem, words)), _any(filter(_UNSPACED.search, words))


def _any(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, words)) or r"(?!)")
