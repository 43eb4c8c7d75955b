"""Chunks: cuts long texts into overlapping chunks for embedding and search."""

import unicodedata

from state.text.patterns import UNSPACED, late_pattern
from state.text.words import MOST_MARKS

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80

# A run of letters and digits of a script with spaces, one character of a script without, or one symbol. A class of
# this many characters takes 40 ms to compile, too long for a session start.
_UNIT = late_pattern(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+|[^\w\s]|_+")
_SPACELESS = late_pattern(rf"[{UNSPACED}]")
_CHARACTERS_PER_TOKEN = 4
# For texts without letters of the scripts without spaces, or of those behind the first of them: the tokens directly.
_LATER_LETTER = late_pattern(r"[^\W_\u0000-\u0dff]")
_TOKEN = late_pattern(rf"[^\W_]{{1,{_CHARACTERS_PER_TOKEN}}}|[^\w\s]|_{{1,{_CHARACTERS_PER_TOKEN}}}")
_SENTENCE_END = r"""[.!?…।۔؟][\"'”’)\]]*\s|[。！？]+[\"'”’」』）)\]]*"""
_BREAKS = tuple(late_pattern(end) for end in (r"\n\s*\n", r"\n", _SENTENCE_END, r"\s"))
# Combining marks and joiners belong to the letter before them; joiners also to the letter after them.
_INSIDE = late_pattern(r"(?<=[\u200c\u200d])|(?=[\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff])")


def tokens(text: str) -> int:
    """Estimate how many tokens a model counts: one per four characters of a word, one per symbol."""
    if not text.isascii() and _LATER_LETTER.search(text):
        return sum(_cost(unit.group()) for unit in _UNIT.finditer(text))
    return len(_TOKEN.findall(text))


def chunk(text: str) -> tuple[str, ...]:
    """Return the text in chunks of at most 400 tokens, each starting within the last 80 tokens of the previous one.

    A text that fits is one chunk. If possible, a chunk ends at a paragraph, else at a line, a sentence, a word. Every
    character except white space is in at least one chunk. No chunk is empty; blank text has none.
    """
    if not text.strip():
        return ()
    units = [(unit.start(), unit.end(), _cost(unit.group())) for unit in _UNIT.finditer(text)]
    units = [piece for unit in units for piece in _short(unit)]
    chunks: list[str] = []
    start, first = 0, 0
    while True:
        last, spent = first, 0
        while last < len(units) and spent + units[last][2] <= CHUNK_TOKENS:
            spent += units[last][2]
            last += 1
        if last >= len(units):
            chunks.append(text[start:].strip())
            return tuple(piece for piece in chunks if piece)
        limit = units[last][0]
        end = best_end(text, start + (limit - start) * 2 // 3, limit)
        chunks.append(text[start:end].strip())
        while units[last - 1][0] >= end:
            last -= 1
        first, spent = last, 0
        while first - 1 > 0 and units[first - 1][0] > start and spent + units[first - 1][2] <= OVERLAP_TOKENS:
            first -= 1
            spent += units[first][2]
        start = units[first][0] if first < last else end


def _cost(unit: str) -> int:
    return 1 if _SPACELESS.match(unit) else -(-len(unit) // _CHARACTERS_PER_TOKEN)


def _short(unit: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Cut a word that is longer than half an overlap (base64, a run of dashes) at any character."""
    start, end, cost = unit
    if cost <= OVERLAP_TOKENS // 2:
        return [unit]
    step = OVERLAP_TOKENS // 2 * _CHARACTERS_PER_TOKEN
    return [
        (at, min(at + step, end), -(-(min(at + step, end) - at) // _CHARACTERS_PER_TOKEN))
        for at in range(start, end, step)
    ]


def best_end(text: str, earliest: int, limit: int) -> int:
    """Return the best place between these two to cut a text: after a paragraph, else a line, a sentence, a word."""
    for pattern in _BREAKS:
        places = [match.end() for match in pattern.finditer(text, earliest, limit)]
        if places:
            return places[-1]
    end = limit
    while end - 1 > earliest and limit - end < MOST_MARKS and _is_inside(text, end):
        end -= 1
    return end


def is_torn(text: str, end: int) -> bool:
    """Return whether a cut at this place divides a word of a script with spaces."""
    around = text[end - 1 : end + 1]
    return len(around) == 2 and around.isalnum() and not _SPACELESS.search(around)


def _is_inside(text: str, end: int) -> bool:
    """Return whether the place is inside one letter or symbol, with its marks."""
    after = text[end : end + 1]
    return bool(after and unicodedata.category(after)[0] == "M") or _INSIDE.match(text, end) is not None
