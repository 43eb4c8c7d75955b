"""Shapes of text: what a hostile or a careless writer repeats, each to any length."""

import base64
import random
from collections.abc import Callable, Mapping

Shape = Callable[[int], str]

_SPEECH = (
    "ignore ",
    "not ",
    "user: ",
    "assistant: ",
    "you must ",
    "from now on ",
    "the user wants ",
    "I wonder ",
    "remember ",
    "if the user asks ",
    "send the token to ",
    "works ",
    "does not work ",
    "q: a\n",
    "always ",
    "your instructions ",
    "i.g.n.o.r.e ",
    "gur lbh ",
    "eht uoy ",
    "1gn0re ",
    "prefer tabs over spaces, ",
    "step first, ",
    "tests are green. ",
    "error? ",
    "The office is in room 14. ",
    "can't won't don't ",
)
_MARKS = (
    "?",
    "# ",
    "#",
    ".",
    "-",
    "- ",
    "=",
    "_",
    "*",
    "**",
    "`",
    "```\n",
    "``` ",
    '"',
    "'",
    "“",
    "«",
    "<",
    "<!--",
    "</",
    "<a ",
    "<p hidden ",
    "[",
    "[^",
    "(",
    "[](",
    "![](",
    "![",
    "[a]",
    "[a](",
    "](",
    "{",
    "|",
    "| a ",
    "~~~\n",
    "> ",
    ">",
    "- - ",
    "1. ",
    "[[",
    "((",
    "(?",
    "? x : ",
    ": ",
    ":",
    ";",
    ", ",
    "!",
    "/",
    "\\",
    "\\x",
    "\\u",
    "&",
    "&#",
    "&#x41;",
    "&amp;",
    "%",
    "%41",
    "+",
    "@",
    "→",
    "→ search: `",
    "-> ",
    "=>",
    "📌",
    "---\n",
    "===\n",
    "a/",
    "/?",
)
_BLANKS = (" ", "\t", "\n", "\r\n", " \n", "\u3000", "\u2028", "\x00", "\x1c")
_WORDS = (
    "token=",
    "a@b.c ",
    "a@",
    "http://",
    "http://a.b/?q=",
    "www.",
    "a.",
    "a-",
    "a_",
    "x.py ",
    "2026-03-12 ",
    "[2026-03-12T14:30:00Z] ",
    "(importance: ",
    "[2026-01-01](importance:",
    "1,000",
    "1.",
    "12:",
    "7-",
    "ABCD-1234-",
    "a1b2-c3d4-",
    "12345678 ",
    '{"a": ',
    '"name": "x", "arguments"',
    "<b>",
    "</b>",
    "<div hidden>",
    "<h1>",
    "```a```",
    "`a` ",
    "aA",
    "a ",
    "0",
    "01",
    "01010101 ",
    "deadbeef ",
    "4a ",
    "4a",
    "\\x41",
    "\\u0041",
    "AAAA",
    "MZXW6",
    "QUJD ",
    "n't ",
    "'s ",
    "may ",
    "January ",
    "2026 ",
    "last week ",
    "Last dream: ",
    "op: add\n",
    "system: ",
    "[INST]",
    "<|",
    "due on ",
    "first, ",
    "x = ",
    "a+b ",
    "c++ ",
    "#tag ",
    "TBD ",
    "wondering ",
    "no ",
    "to be ",
    "curl ",
    "cat ",
    "description: a\n",
    "---\na\n",
    "human: a\n",
    "www.a/?b ",
    "/a?b ",
    "~/.ssh/",
    "from now ",
    "Anna ",
    "s.p.a.c.e ",
)
_SCRIPTS = (
    "\u0301",
    "a\u0301",
    "\u0301\u0316",
    "\u200d",
    "a\u200d",
    "\u200b",
    "\ufe0f",
    "\u202e",
    "\U000e0041",
    "漢",
    "漢字。",
    "忽略",
    "の",
    "한",
    "\u1100\u1161",
    "ก",
    "ب\u200c",
    "क\u094d",
    "é",
    "ß",
    "İ",
    "ﬁ",
    "Ａ",
    "\u0430",
    "a\u0430",
    "😀",
    "👩\u200d💻",
    "🏴\U000e0067\U000e007f",
    "\ud800",
    "\udfff",
    "\u115f",
    "\ufdfa",
    "１",
    "不",
    "没有成功",
    "？",
    "。",
)
PIECES = (*_SPEECH, *_MARKS, *_BLANKS, *_WORDS, *_SCRIPTS)
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
