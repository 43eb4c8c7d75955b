"""Line: breaks up everything that could make a text more than one plain line of MEMORY.md.

Headings, pointers, log entries, stamps, attributions, tables and raw HTML lose their effect; links, code and emphasis
stay. A blank is inserted or a mark dropped; the words stay. Applying it again changes nothing. What a text *means* is
not examined.
"""

import re
import unicodedata

from state.text.patterns import late_pattern
from state.text.words import visible

LINE_CHARACTERS = 600
# Two joiners belong to the spelling of Arabic and Indic scripts, and one of them composes emoji.
JOINERS = "\u200c\u200d"
SELECTORS = "\ufe0e\ufe0f"
# Tag characters are valid only after a black flag, where they spell regional flags.
FLAG = late_pattern("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")

# Plain text that cannot contain a block, link, tag, entry or code.
_ORDINARY = late_pattern(r"(?!last dream)[a-z][a-z0-9 ,.;:!?%/'+-]*", re.IGNORECASE | re.ASCII)
_BULLETS = late_pattern(r"^(?:[-*+]\s+)+")
_BLOCK_START = late_pattern(
    r"^(?=((?:\d{1,9}[.)]\s+|[-*+]\s+)*))\1(?=#{1,6}(?:\s|$)|~{3,}|>|(?:[-=*_]\s*){3,}$|\[[^\]]{1,200}\]:|"
    r"[_*]{0,2}last dream:)",
    re.IGNORECASE,
)
_TABLE_RULE = late_pattern(
    r"(?<!\S)\|?[ \t]{0,9}:?-{2,}:?(?:[ \t]{0,9}\|[ \t]{0,9}:?-{2,}:?)+[ \t]{0,9}\|?(?!\S)[ \t]?|\|(?:-{3,}\|)+"
)
_BACKTICKS = late_pattern(r"`+")
# Full-width letters and marks count like ordinary ones.
_POINTER = late_pattern(
    r"[ \t]{0,9}(?:→|⟶|➔|➜|⇒|[-=]{1,4}>)\s{0,9}[*_]{0,3}"
    r"([sｓ][eｅ][aａ][rｒ][cｃ][hｈ])[*_]{0,3}\s{0,9}[:：](?=[*_\s]{0,9}[`｀])",
    re.IGNORECASE,
)
_ENTRY = late_pattern(
    r'[\[［](\d{4}-\d\d-\d\d[^\]］]{0,40})[\]］]\s*[(（]\s*importance\s*[:：]\s*([^)("（）]{0,20})[)）]',
    re.IGNORECASE,
)
_ATTRIBUTION = late_pattern(r"(?<=[\"'”’»])(\s{0,3})\((from (?:the web|a tool|an agent|the owner))\)")
_REMOTE_IMAGE = late_pattern(r"!(?=\[[^\]]{0,1000}\](?:\(\s{0,9}<?(?:https?:)?//|\[))", re.IGNORECASE)
# Tags that load or hide something, make a heading, affect the lines below, or mark a turn of a conversation.
_TAG = late_pattern(
    r"<(?=[!|]|\?(?!>)|/?(?:img|script|iframe|object|embed|link|meta|style|svg|math|video|audio|source|form|base|input|"
    r"textarea|select|button|template|frameset|frame|picture|h[1-6]|hr|noscript|details|dialog|marquee|center|font|"
    r"table|sub|sup|small|big|b|i|u|s|strike|del|mark|xmp|plaintext|"
    r"system[\w-]*|user|assistant|developer|human|admin|instructions?|memory|removed|sys|tool_\w{1,30}|"
    r"function_\w{1,30}|invoke|untrusted[\w-]*|start_of_turn|end_of_turn)\b[^<>]{0,600}(?:>|$)|<?/?sys\b|"
    r"\w{1,12}\b[^<>]{0,300}(?:\bhidden\b|display\s*:\s*none|font-size\s*:\s*0|opacity\s*:\s*0|left\s*:\s*-\d|"
    r"color\s*[:=]\s*[\"']?(?:white|#fff|transparent))[^<>]{0,300}>)",
    re.IGNORECASE,
)
# A tag that is only mentioned is left unclosed, or is in code.
_CLOSED = late_pattern(r"</([a-z][\w:-]{0,30})\s{0,9}>")
_ELEMENT = late_pattern(r"<(?=/?([a-z][\w:-]{0,30})\b([^<>]{0,600})>)")
_CODE = late_pattern(r"((?<!\\)`[^`]*`)")
_CHAT_MARK = late_pattern(r"\[(?=/?(?:INST|TOOL_CALLS)\])")

_COUNTED = late_pattern(
    r"\s{0,9}(?:→|⟶|➔|➜|⇒|[-=]{1,4}>)\s{0,9}[*_]{0,3}(?=confidence[*_]{0,3}\s{0,9}:)", re.IGNORECASE
)


def as_line(text: str, limit: int = LINE_CHARACTERS) -> str:
    """Return the text as one line of MEMORY.md that can be nothing else, of at most `limit` characters.

    Idempotent. An honest text of one line stays unchanged.
    """
    seen = text
    while (once := balanced(_cut(apart(seen), limit))) != seen:
        seen = once
    return seen


def without_count(text: str) -> str:
    """Remove the arrow of a counted skill, which only the program may write."""
    return _COUNTED.sub(", ", text)


def apart(text: str) -> str:
    """Return the text as one line that can be nothing else, with its backticks not yet balanced."""
    if _ORDINARY.fullmatch(text):  # nothing below would change it, and the patterns are slow to compile
        return text.rstrip(" ")
    rows = _filled(text)
    bare = {row: _BLOCK_START.sub(r"\1\\", _BULLETS.sub("", _printable(row).strip())) for row in set(rows)}
    line = _TABLE_RULE.sub("", " ".join(row for row in map(bare.__getitem__, rows) if row))
    line = _CHAT_MARK.sub("[ ", _without_elements(_TAG.sub("< ", line.replace("📌", ""))))
    line = _REMOTE_IMAGE.sub("", _ENTRY.sub(r"[\1, importance \2]", _POINTER.sub(r" (\1)", line)))
    line = _ATTRIBUTION.sub(r"\1\2", line)
    return _BACKTICKS.sub(lambda match: "`" if len(match.group()) > 2 else match.group(), line).strip()


def _filled(text: str) -> list[str]:
    return [row for row in text.splitlines() if row and not row.isspace()]


def balanced(line: str) -> str:
    """Close each code span with as many backticks as opened it, and drop unpaired backticks."""
    runs = list(_BACKTICKS.finditer(line))
    left = {len(run.group()): 0 for run in runs}
    for run in runs:
        left[len(run.group())] += 1
    lonely, opened = [], 0
    for run in runs:
        size = len(run.group())
        left[size] -= 1
        if opened == size:
            opened = 0
        elif not opened and left[size]:
            opened = size
        elif not opened:
            lonely.append(run)
    for run in reversed(lonely):
        line = line[: run.start()] + line[run.end() :]
    return line.strip()


def _without_elements(line: str) -> str:
    """Break up tags that are closed, by themselves or by another tag."""
    if "/" not in line:
        return line
    closed = set(_CLOSED.findall(line))
    pieces = _CODE.split(line)
    for at in range(0, len(pieces), 2):
        pieces[at] = _ELEMENT.sub(lambda tag: "< " if tag[1] in closed or tag[2].endswith("/") else "<", pieces[at])
    return "".join(pieces)


def _printable(row: str) -> str:
    """Drop zero-width characters, turn tabs and unusual spaces into blanks, and replace lone surrogates."""
    if row.isascii() and row.isprintable():
        return row
    signs = set(row)
    shown = {ord(char): _shown(char) for char in signs}
    if signs.isdisjoint(JOINERS + SELECTORS) and not FLAG.search(row):
        return row.translate(shown)
    flags = {at for match in FLAG.finditer(row) for at in range(*match.span())}
    kept = []
    for i, char in enumerate(row):
        if i in flags:
            kept.append(char)
        elif char in JOINERS or char in SELECTORS:
            kept.append(char if _joins(row, i) else "")
        else:
            kept.append(shown[ord(char)])
    return "".join(kept)


def _shown(char: str) -> str:
    if char.isspace():
        return " "
    category = unicodedata.category(char)
    if category == "Cs":
        return "\ufffd"
    return char if category not in {"Cc", "Cf"} and visible(char) else ""


def _joins(row: str, at: int) -> bool:
    before, after = row[at - 1 : at] if at else "", row[at + 1 : at + 2]
    if row[at] in SELECTORS:
        return bool(before) and (unicodedata.category(before) == "So" or before in "0123456789#*‼⁉↔")
    if before in SELECTORS:
        before = row[at - 2 : at - 1] if at > 1 else ""
    letters = all(char and unicodedata.category(char)[0] in "LM" and char > "\u0590" for char in (before, after))
    emoji = all(char and (unicodedata.category(char) in {"So", "Sk"}) for char in (before, after))
    return letters or (emoji and row[at] == "\u200d")


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    room = line[: max(0, limit - 1)].rstrip(JOINERS + SELECTORS)
    words = room.rsplit(" ", 1)[0] if " " in room[limit // 2 :] else room
    return words.rstrip() + "…"
