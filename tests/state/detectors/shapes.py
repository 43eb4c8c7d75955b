"""Shapes of text: what a hostile or a careless writer repeats, each to any length."""

import base64
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

Shape = Callable[[int], str]

# What people say, marks of every syntax, blanks, words, signs of every script.
PIECES: list[str] = json.loads(Path(__file__).with_name("pieces.json").read_text(encoding="utf-8"))
_BLOCK = 1_024  # what is drawn is drawn once: four times the text is four times the same
_NESTED = (("[", "]"), ("(", ")"), ("<b>", "</b>"), ("<", ">"), ("{", "}"), ("“", "”"), ("`", "` "), ("[", "](a)"))


def _then(shape: Shape, end: str) -> Shape:
    return lambda length: shape(length - len(end)) + end


def _repeated(piece: str) -> Shape:
    return lambda length: piece * (length // len(piece))


def _nested(opening: str, closing: str) -> Shape:
    def text(length: int) -> str:
        times = length // (len(opening) + len(closing))
        return opening * times + closing * times

    return text


def _drawn(first: int, last: int) -> Shape:
    chance = random.Random(first)
    return _repeated("".join(chance.choices([chr(code) for code in range(first, last)], k=_BLOCK)))


def _runs_apart(length: int) -> str:
    """Runs of backticks, each of another length: none has a partner."""
    text, size = [], 1
    while length > 0:
        text.append("`" * size + " ")
        length -= size + 1
        size += 1
    return "".join(text)


def _blob(length: int) -> str:
    return base64.b64encode(random.Random(7).randbytes(length * 3 // 4)).decode()


def _blobs(length: int) -> str:
    """Words in base64 among words."""
    chance = random.Random(8)
    rows = [f"key {base64.b64encode(chance.randbytes(30)).decode()} of host{n}" for n in range(length // 50 + 1)]
    return "\n".join(rows)[:length]


def _spoken_blobs(length: int) -> str:
    """English in base64."""
    row = base64.b64encode(b"the deploy of the second host was late on Friday, see the runbook").decode()
    return _repeated(f"note {row} ")(length)


def _deep_blob(length: int) -> str:
    """English in base64 in base64."""
    plain = b"the deploy was late "
    return base64.b64encode(base64.b64encode(plain * (length // 20 * 9 // 16 + 1))).decode()[:length]


def _prose(length: int) -> str:
    chance = random.Random(9)
    words = (
        "the deploy works again after we fixed the certificate of the second host and the user prefers short answers "
        "why does it fail on Friday? always run tests before you push. never delete a branch, I will ask Anna"
    ).split()
    return " ".join(chance.choices(words, k=length // 5 + 1))[:length]


def _distinct(beginning: str, end: str = " ", rows: int = 1) -> Shape:
    """Words no two of which are the same, however long the text is: `rows` of them in a line."""

    def text(length: int) -> str:
        chance = random.Random(10)
        size = len(beginning) + 6 + len(end)
        words = (beginning + "".join(chance.choices("defghijklmnopqrstuvwxyz", k=6)) for _ in range(length // size))
        return "".join(word + (end if number % rows == rows - 1 else " ") for number, word in enumerate(words))

    return text


def _around(piece: str) -> Shape:
    """Around words: it begins a text, stands between two words, nearly matching to the end of a run, and ends it."""
    run = _repeated(piece)
    return lambda length: f"{run(length // 4)}word§ word{run(length // 2)}word§ {run(length // 4)}"


_OTHERS: Mapping[str, Shape] = {
    **{f"nested {opening}": _nested(opening, closing) for opening, closing in _NESTED},
    "one long word": _repeated("abcdefghij"),
    "printable ASCII": _drawn(32, 127),
    "letters": _drawn(97, 123),
    "digits": _drawn(48, 58),
    "Latin, Greek, Cyrillic": _drawn(0xC0, 0x530),
    "Unicode": _drawn(0x20, 0xFFFF),
    "marks": _drawn(0x300, 0x370),
    "runs of backticks": _runs_apart,
    "base64": _blob,
    "base64 among words": _blobs,
    "English in base64": _spoken_blobs,
    "base64 in base64": _deep_blob,
    "words": _distinct(""),
    "words that begin alike": _distinct("abc"),
    "words that begin more alike": _distinct("abcde"),
    "names": _distinct("Ada"),
    "sentences": _distinct("", ". ", 4),
    "lines": _distinct("", "\n", 4),
    "links": _distinct("https://", ".com/ "),
    "settings": _distinct("key_", ": "),
    "prose": _prose,
    "one row of prose": lambda length: _prose(length).replace(". ", " ").replace("? ", " "),
    "ends like an address": lambda length: "a" * (length - 9) + "@evil.com",
    "words then a question": lambda length: _prose(length - 1).replace("?", "") + "?",
}
SHAPES: Mapping[str, Shape] = {
    **{ascii(piece): _repeated(piece) for piece in PIECES},
    # What nearly matched to the end.
    **{f"{piece!a} and a word": _then(_repeated(piece), "word§") for piece in PIECES},
    **{f"{piece!a} among words": _around(piece) for piece in PIECES},
    **_OTHERS,
}
# All pieces and all other shapes, in half as many texts.
FEW_SHAPES: Mapping[str, Shape] = {**{ascii(piece): _around(piece) for piece in PIECES}, **_OTHERS}
