"""Cleaning: removes invisible characters from text in other programs' files, and shortens it."""

import re

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\^_]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
# C0 and C1 controls except tab and newline; bidirectional overrides and isolates, zero-width space, word joiner, byte
# order mark and tag characters: they hide text from a reader and from redaction. The joiners U+200C and U+200D stay,
# because scripts and emoji need them.
_REMOVED = dict.fromkeys(
    [
        *(code for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)),
        *(0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xE0000, 0xE0080),
    ]
)


def clean(text: str) -> str:
    """Return the text stripped, with LF line ends, without terminal escapes, control and invisible characters.

    A lone surrogate becomes U+FFFD, so that the result can always be encoded.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text).translate(_REMOVED).strip()


def capped(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters unchanged; of a longer one, both ends and the size of the gap."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head].rstrip()}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:].lstrip()}"


def one_line(text: str, limit: int) -> str:
    """Return the text on one line of at most `limit` characters, with an ellipsis if it was cut."""
    flat = " ".join(text[: limit * 4].split())
    return flat if len(flat) <= limit and len(text) <= limit * 4 else flat[: limit - 1].rstrip() + "…"
