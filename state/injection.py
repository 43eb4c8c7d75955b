"""Memory is data, not orders: does a text try to command the agent that will read it, and how is it made harmless?

`reads_as_instruction` is a heuristic over a table of patterns (state/poison.py). `defang` takes away whatever could
change the structure of MEMORY.md, and `quote` marks a text as something that was said. An instruction that is
quoted is a mention of it; the structure is safe whatever the heuristic misses.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import islice

from state.crystal import Trust
from state.injection_decoding import decodings, folded
from state.injection_signs import by_example, commanding
from state.poison import Poison, spoken_patterns, squeezed_pattern, written_patterns
from state.words import visible

LINE_CHARACTERS = 600
_SCANNED_CHARACTERS = 64 * 1024

_SPEAKERS = {
    Trust.WEB: "from the web",
    Trust.TOOL: "from a tool",
    Trust.AGENT: "from an agent",
    Trust.OWNER: "from the owner",
}
_QUOTED = re.compile(r'"[^"]*" \((?:' + "|".join(_SPEAKERS.values()) + r")\)")
_QUOTE_MARKS = str.maketrans(dict.fromkeys('"“”„‟«»＂', "'"))

# Hidden text. Tag characters spell flags after a black flag only; an override turns the reading direction around.
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")
_HIDDEN = re.compile(
    "[\U000e0001-\U000e007f\u202d\u202e]|[\u200b-\u200d\u2060-\u2064\ufeff]{4,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
)
_SPLIT_WORD = re.compile("(?<=[A-Za-z])[\u200b-\u200d\u2060\ufeff]+(?=[A-Za-z])")
_SPLIT_WORDS_ALLOWED = 2

# Two joiners are spelling in Arabic and Indic scripts, and one of them builds emoji.
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe0e\ufe0f"

_LEET = str.maketrans("013457@$!l", "oieastasii")
_SPAN = re.compile(
    r'"[^"\n]{1,160}"|“[^”\n]{1,160}”|«[^»\n]{1,160}»|`[^`\n]{1,160}`|「[^」\n]{1,160}」|(?<!\w)\'[^\'\n]{1,160}\'(?!\w)'
)
_DISCOURSE = re.compile(
    r"\b(?:phrases?|strings?|inject\w*|jailbreak\w*|attacks?|poison\w*|payloads?|e\.g\.|examples?|such as|patterns?|"
    r"detect\w*|filters?|discuss\w*|regex\w*|tests?|keywords?|blocks?|blocked|rejects?|rejected|refuses?|tokens?|tags?|"
    r"templates?|literal|contain(?:s|ed|ing)?|saw|attempt\w*)\b"
)

_DECODINGS = 60
_MARK_RUN = re.compile(r"([-=*#>~_<\[({.` \t])\1{6,}")

_BULLETS = re.compile(r"^(?:[-*+]\s+)+")
_BLOCK_START = re.compile(
    r"^(?=((?:\d{1,9}[.)]\s+|[-*+]\s+)*))\1(?=#{1,6}(?:\s|$)|~{3,}|>|(?:[-=*_]\s*){3,}$|\[[^\]]{1,200}\]:|"
    r"[_*]{0,2}last dream:\s*\d)",
    re.IGNORECASE,
)
_BACKTICKS = re.compile(r"`+")
_POINTER = re.compile(
    r"[ \t]{0,9}(?:→|⟶|➔|➜|⇒|[-=]{1,4}>)\s{0,9}[*_]{0,3}(search)[*_]{0,3}\s{0,9}[:：](?=[*_\s]{0,9}`)", re.IGNORECASE
)
_ENTRY = re.compile(r'\[(\d{4}-\d\d-\d\d[^\]]{0,40})\]\s*\(\s*importance\s*:\s*([^)("]{0,20})\)', re.IGNORECASE)
_REMOTE_IMAGE = re.compile(r"!(?=\[[^\]]{0,1000}\](?:\(\s{0,9}<?(?:https?:)?//|\[))", re.IGNORECASE)
# Tags that load something, hide it, make a heading, or stand for a turn of a conversation.
_TAG = re.compile(
    r"<(?=[!|]|\?(?!>)|<?/?(?:img|script|iframe|object|embed|link|meta|style|svg|video|audio|source|form|base|input|"
    r"picture|h[1-6]|hr|noscript|system[\w-]*|user|assistant|developer|human|admin|instructions?|memory|removed|sys|s|"
    r"tool_\w{1,30}|function_\w{1,30}|invoke|untrusted[\w-]*|start_of_turn|end_of_turn)\b[^<>]{0,600}(?:>|$)|"
    r"\w{1,12}\b[^<>]{0,300}(?:\bhidden\b|display\s*:\s*none|font-size\s*:\s*0|opacity\s*:\s*0|left\s*:\s*-\d|"
    r"color\s*[:=]\s*[\"']?(?:white|#fff|transparent))[^<>]{0,300}>)",
    re.IGNORECASE,
)
_CHAT_MARK = re.compile(r"\[(?=/?(?:INST|TOOL_CALLS)\])")


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a text reads as an instruction: the kind of trick, and the words that show it."""

    kind: Poison
    excerpt: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.excerpt}"


def reads_as_instruction(text: str) -> Finding | None:
    """What in this text orders the agent about or forges structure; None when nothing does.

    A text that `quote` has made is a datum and passes; so does a phrase in quotation marks in a sentence that talks
    about phrases, attacks, tests and the like. Only the first 64 Ki characters are read.
    """
    if is_quoted(text):
        return None
    text = text[:_SCANNED_CHARACTERS]
    hidden = _HIDDEN.search(_FLAG.sub("", text))
    if hidden or len(_SPLIT_WORD.findall(text)) > _SPLIT_WORDS_ALLOWED:
        return Finding(Poison.HIDDEN, _excerpt(visible(text)))
    return _spoken(text) or _encoded(text)


def defang(text: str, limit: int = LINE_CHARACTERS) -> str:
    """The text as one line of MEMORY.md that can be nothing but a line; at most `limit` characters; idempotent.

    No control, directional or zero-width characters (but the joiners that scripts and emoji need), no heading, quote
    block, rule, fence, comment, pin, remote image, chat token, pointer or log entry; backticks balanced. Honest text
    of one line stays as it is.
    """
    seen = text
    while (once := _defanged(seen, limit)) != seen:
        seen = once
    return seen


def quote(text: str, trust: Trust, limit: int = LINE_CHARACTERS) -> str:
    """The text as a quoted datum of one line, `"…" (from a tool)`; marks inside become single ones. Idempotent."""
    speaker = f" ({_SPEAKERS[trust]})"
    if is_quoted(text) and text.endswith(speaker) and len(text) <= limit:
        return text
    inner = defang(text.translate(_QUOTE_MARKS), max(1, limit - len(speaker) - 2)).translate(_QUOTE_MARKS)
    return f'"{inner}"{speaker}'


def is_quoted(text: str) -> bool:
    """Whether `quote` could have made this: one quotation, its speaker, and no structure."""
    return bool(_QUOTED.fullmatch(text)) and defang(text, len(text)) == text


def unquoted(text: str) -> tuple[str, Trust | None]:
    """What a quotation quotes, and whom; a text that is none, and None."""
    if not is_quoted(text):
        return text, None
    inner, _, speaker = text[1:].rpartition('" (')
    return inner, next(trust for trust, said in _SPEAKERS.items() if speaker == f"{said})")


def _spoken(text: str) -> Finding | None:
    # Runs of blank rows and of marks say nothing, and cost patterns that look for what stands behind them.
    rows = "\n".join(row for row in map(str.strip, folded(text).split("\n")) if row)
    read = _MARK_RUN.sub(r"\1\1\1\1\1\1", rows)
    outside = _SPAN.sub('""', read)
    spoken = outside if outside != read and _DISCOURSE.search(outside) else read
    for kind, pattern in written_patterns():
        match = pattern.search(spoken if kind is Poison.FAKE_SYSTEM else read)
        if match:
            return Finding(kind, _excerpt(match.group()))
    if _escapes_fence(read):
        return Finding(Poison.STRUCTURE, _excerpt(read[-80:]))
    flat = " ".join(spoken.split())
    for kind, pattern in spoken_patterns():
        match = pattern.search(flat)
        if match:
            return Finding(kind, _excerpt(match.group()))
    squeezed = squeezed_pattern().search(re.sub(r"[\W_]+", "", flat.translate(_LEET)))
    if squeezed:
        return Finding(Poison.OBFUSCATED, _excerpt(squeezed.group()))
    habit = by_example(spoken)
    if habit:
        return Finding(Poison.FAKE_SYSTEM, _excerpt(habit))
    signs = commanding(flat)
    return Finding(signs[0], _excerpt(signs[1])) if signs else None


def _encoded(text: str) -> Finding | None:
    for decoded in islice(decodings(text), _DECODINGS):
        if decoded != text and (finding := _spoken(decoded)):
            return Finding(Poison.ENCODED, finding.excerpt)
    return None


def _escapes_fence(folded: str) -> bool:
    """A fence is closed that was never opened, and a heading follows."""
    rows = [row.strip() for row in folded.splitlines()]
    fences = [i for i, row in enumerate(rows) if re.match(r"`{3,}|~{3,}", row)]
    if len(fences) % 2 == 0:
        return False
    return any(re.match(r"#{1,2}\s|end of\b", row) for row in rows[fences[-1] + 1 :])


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else flat[:79] + "…"


def _defanged(text: str, limit: int) -> str:
    rows = (_BLOCK_START.sub(r"\1\\", _BULLETS.sub("", _printable(row).strip())) for row in text.splitlines())
    line = " ".join(row for row in rows if row)
    line = _CHAT_MARK.sub("[ ", _TAG.sub("< ", line.replace("📌", "")))
    line = _REMOTE_IMAGE.sub("", _ENTRY.sub(r"[\1, importance \2]", _POINTER.sub(r" (\1)", line)))
    line = _BACKTICKS.sub(lambda match: "`" if len(match.group()) > 2 else match.group(), line)
    return _balanced(_cut(line.strip(), limit))


def _printable(row: str) -> str:
    """Without characters of no width; tabs and exotic blanks are blanks, lone surrogates are replaced."""
    if row.isascii() and row.isprintable():
        return row
    flags = {at for match in _FLAG.finditer(row) for at in range(*match.span())}
    kept = []
    for i, char in enumerate(row):
        if i in flags:
            kept.append(char)
        elif char in _JOINERS or char in _SELECTORS:
            kept.append(char if _joins(row, i) else "")
        elif char.isspace():
            kept.append(" ")
        elif unicodedata.category(char) == "Cs":
            kept.append("\ufffd")
        elif unicodedata.category(char) not in {"Cc", "Cf"} and visible(char):
            kept.append(char)
    return "".join(kept)


def _joins(row: str, at: int) -> bool:
    before, after = row[at - 1 : at] if at else "", row[at + 1 : at + 2]
    if row[at] in _SELECTORS:
        return bool(before) and (unicodedata.category(before) == "So" or before in "0123456789#*‼⁉↔")
    if before in _SELECTORS:
        before = row[at - 2 : at - 1] if at > 1 else ""
    letters = all(char and unicodedata.category(char)[0] in "LM" and char > "\u0590" for char in (before, after))
    emoji = all(char and (unicodedata.category(char) in {"So", "Sk"}) for char in (before, after))
    return letters or (emoji and row[at] == "\u200d")


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    room = line[: max(0, limit - 1)].rstrip(_JOINERS + _SELECTORS)
    words = room.rsplit(" ", 1)[0] if " " in room[limit // 2 :] else room
    return words.rstrip() + "…"


def _balanced(line: str) -> str:
    """Code spans close with as many backticks as they open; backticks without a partner leave."""
    runs = list(_BACKTICKS.finditer(line))
    lonely, i = [], 0
    while i < len(runs):
        partner = next((j for j in range(i + 1, len(runs)) if len(runs[j].group()) == len(runs[i].group())), None)
        if partner is None:
            lonely.append(runs[i])
        i = i + 1 if partner is None else partner + 1
    for run in reversed(lonely):
        line = line[: run.start()] + line[run.end() :]
    return line.strip()
