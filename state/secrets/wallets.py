"""Wallets: finds seed phrases by the word lists of wallets, or by what is said beside them."""

import functools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from state.secrets.languages import vocabulary
from state.text.patterns import late_pattern

# Fewest and most words of a phrase, fewest distinct words; a longer row than the last is a dictionary.
_LEAST, _MOST, _FEWEST, _LONGEST = 12, 26, 8, 52
# A dozen ideographs, or words of two letters, with separators.
_SHORTEST = 23
# Applied to the text as ASCII with "?" for every other character: no list has words shorter than three letters.
_WORD = r"(?:[A-Za-z?]{3,24}|\?\?)"
_ROW = rf"{_WORD}(?:(?:\\n|[\s\d.,;:)\]\[*\"'|>`-]){{1,10}}{_WORD}){{{_LEAST - 1},}}"
_EACH = late_pattern("(?:[^\\W\\d_]|[\u0300-\u036f\u3099\u309a]){2,}")
# Only a wallet puts a space after each ideograph, or after each of a dozen words in hiragana.
_SIGN_GAP = r"(?:[ \u3000,，、\n]|\d{1,2}+[.):、]?+){1,6}+"
_SIGNS = late_pattern(
    rf"[\u3400-\u9fff](?:{_SIGN_GAP}[\u3400-\u9fff]){{11,23}}(?![\u3040-\u9fff])"
    rf"|[\u3040-\u309f]{{2,12}}+(?:{_SIGN_GAP}[\u3040-\u309f]{{2,12}}+){{11,23}}(?![\u3040-\u9fff])"
)
_BESIDE = late_pattern(
    r"(?i)wallet|ledger|trezor|metamask|monero|\bseed|mnemonic|electrum|bip-?39|phantom|exodus|coinbase|bitcoin|ethereum|crypto"
    r"|keplr|phrase|portaf|portefeuille|carter|biller?tera|monedero|carteira|geldb|кошел|сид-|гаман|portfel|cüzdan|plånbok|frase|woorden"
    r"|助记词|助記詞|钱包|錢包|ウォレット|지갑|니모닉"
)
_HEAD = late_pattern(r"[:=(→]|\n(?!\s*\W?\d)")
_BEFORE, _AFTER, _HEADING = 120, 60, 8


def wallets(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each seed phrase."""
    return _found(text, lambda words: _listed(words) or _stretches(words))


def listed_wallets(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the seed phrases whose words are all in one word list of wallets, whatever stands beside them."""
    return _found(text, _listed)


def _found(
    text: str, spans_of: Callable[[Sequence[str]], Iterable[tuple[int, int]]]
) -> Iterator[tuple[str, int, int]]:
    if len(text) < _SHORTEST:
        return
    for match in () if text.isascii() else _SIGNS.finditer(text):
        yield "seed phrase", *match.span()
    for row in _rows().finditer(text.encode("ascii", "replace")):
        begin, stop = row.span()
        words = _EACH.findall(unicodedata.normalize("NFC", text[begin:stop]).lower())
        if len(set(words)) < _FEWEST:
            continue
        places: list[tuple[int, int]] = []
        for first, last in spans_of(words):
            places = places or [match.span() for match in _EACH.finditer(text, begin, stop)]
            for start, end in _phrases(text, words[first:last], places[first:last]):
                yield "seed phrase", start, end


@functools.cache
def _rows() -> Any:  # noqa: ANN401 - google-re2 has no types
    import re2

    return re2.compile(_ROW.encode())


def _stretches(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of at least a dozen consecutive words without function words."""
    small = vocabulary().small
    first = 0
    for number, word in enumerate([*words, ""]):
        if len(word) < 3 or word in small:
            if number - first >= _LEAST:
                yield first, number
            first = number + 1


def _phrases(text: str, words: Sequence[str], places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if _listed(words):
        yield places[0][0], places[-1][1]
        return
    beside = max(0, places[0][0] - _BEFORE), min(len(text), places[-1][1] + _AFTER)
    if len(words) <= _MOST + _HEADING and _BESIDE.search(text, *beside):
        yield from _told(text, places)


def _listed(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of at least a dozen words from one list, hardly any of them function words."""
    lists, small = _lists(), vocabulary().small
    found, first, common = [], 0, -1
    for number, word in enumerate([*words, ""]):
        of = lists.get(word, 0)
        if not common & of:
            row = words[first:number]
            if _LEAST <= len(row) <= _LONGEST and _vary(row) and 4 * sum(one in small for one in row) <= len(row):
                found.append((first, number))
            first, common = (number, of) if of else (number + 1, -1)
        else:
            common &= of
    return found


def _vary(words: Sequence[str]) -> bool:
    return 3 * len(set(words)) >= 2 * len(words)


@functools.cache
def _lists() -> dict[str, int]:
    """Return the words of BIP 39, with a bit for each language whose list contains the word."""
    from importlib.resources import files

    lists = [one for one in files("mnemonic").joinpath("wordlist").iterdir() if one.name.endswith(".txt")]
    found: dict[str, int] = {}
    for number, one in enumerate(lists):
        for word in unicodedata.normalize("NFC", one.read_text(encoding="utf-8")).split():
            found[word] = found.get(word, 0) | 1 << number
    return found


def _told(text: str, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a row of words beside "wallet" that are no heading: lower case, only separated by gaps."""
    first = 0
    for number, (start, end) in enumerate([*places, (len(text), len(text))]):
        parted = number == len(places) or text[start:end] != text[start:end].lower()
        headed = not parted and number > 0 and _HEAD.search(text, places[number - 1][1], start)
        if parted or headed:
            words = [text[one:other] for one, other in places[first:number]]
            if _LEAST <= len(words) <= _MOST and _vary(words):
                yield places[first][0], places[number - 1][1]
            first = number + parted
