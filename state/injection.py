"""Memory is data, not orders: does a text try to command the agent that will read it, and how is it made harmless?

`reads_as_instruction` is a heuristic over a table of patterns (state/poison.py). `defang` takes away whatever could
change the structure of MEMORY.md, and `quote` marks a text as something that was said. An instruction that is
quoted is a mention of it; the structure is safe whatever the heuristic misses.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from state.crystal import Trust
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

_CONFUSABLES = str.maketrans("аеорсухіјѕһԁԛԝвкмнтгαορνεικτυ", "aeopcyxijshdqwbkmhtraopveiktu")
_WORD = re.compile(r"\w+")
_LATIN, _GREEK_OR_CYRILLIC = re.compile(r"[a-z]"), re.compile("[\u0370-\u052f]")
_MARKS = re.compile("[\u0300-\u036f]")
_SPACED_OUT = re.compile(r"(?<!\S)(?:\w[ .*_-]){5,}\w(?!\S)")
_LEET = str.maketrans("013457@$!l", "oieastasii")
_SPAN = re.compile(
    r'"[^"\n]{1,160}"|“[^”\n]{1,160}”|«[^»\n]{1,160}»|`[^`\n]{1,160}`|「[^」\n]{1,160}」|(?<!\w)\'[^\'\n]{1,160}\'(?!\w)'
)
_DISCOURSE = re.compile(
    r"\b(?:phrases?|strings?|inject\w*|jailbreak\w*|attacks?|poison\w*|payloads?|e\.g\.|examples?|such as|patterns?|"
    r"detect\w*|filters?|discuss\w*|regex\w*|tests?|keywords?|blocks?|blocked|rejects?|rejected|refuses?|tokens?|tags?|"
    r"templates?|literal|contain(?:s|ed|ing)?|saw|attempt\w*)\b"
)

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){16,}|(?:\\x[0-9a-fA-F]{2}){8,}")
_UNICODE_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}){6,}")
_ROT13 = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)

_BULLETS = re.compile(r"^(?:[-*+]\s+)+")
_BLOCK_START = re.compile(r"^(?=((?:\d{1,9}[.)]\s+|[-*+]\s+)*))\1(?=#{1,6}(?:\s|$)|~{3,}|>|(?:[-=*_]\s*){3,}$)")
_BACKTICKS = re.compile(r"`+")
_POINTER = re.compile(r"[ \t]*(?:→|⟶|➔|➜|⇒|[-=]+>)\s*(search)\s*[:：](?=\s*`)", re.IGNORECASE)
_ENTRY = re.compile(r"\[(\d{4}-\d\d-\d\d[^\]]{0,40})\]\s*\(\s*importance\s*:\s*([^)]{0,20})\)", re.IGNORECASE)
_REMOTE_IMAGE = re.compile(r"!(?=\[[^\]]*\]\(\s*<?(?:https?:)?//)", re.IGNORECASE)


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


def _spoken(text: str) -> Finding | None:
    folded = _folded(text)
    outside = _SPAN.sub('""', folded)
    spoken = outside if outside != folded and _DISCOURSE.search(outside) else folded
    for kind, pattern in written_patterns():
        match = pattern.search(spoken if kind is Poison.FAKE_SYSTEM else folded)
        if match:
            return Finding(kind, _excerpt(match.group()))
    if _escapes_fence(folded):
        return Finding(Poison.STRUCTURE, _excerpt(folded[-80:]))
    flat = " ".join(spoken.split())
    for kind, pattern in spoken_patterns():
        match = pattern.search(flat)
        if match:
            return Finding(kind, _excerpt(match.group()))
    squeezed = squeezed_pattern().search(re.sub(r"[\W_]+", "", flat.translate(_LEET)))
    return Finding(Poison.OBFUSCATED, _excerpt(squeezed.group())) if squeezed else None


def _encoded(text: str) -> Finding | None:
    for decoded in _decodings(text):
        finding = _spoken(decoded)
        if finding:
            return Finding(Poison.ENCODED, finding.excerpt)
    return None


def _decodings(text: str) -> Iterator[str]:
    for match in list(_BASE64.finditer(text))[:20]:
        blob = match.group().rstrip("=").replace("-", "+").replace("_", "/")
        yield from _readable(base64.b64decode(blob[: len(blob) - (len(blob) % 4 == 1)] + "=" * (-len(blob) % 4)))
    for match in list(_HEX.finditer(text))[:20]:
        digits = re.sub(r"\\x|[\s:]", "", match.group())
        yield from _readable(binascii.unhexlify(digits))
    if "%" in text:
        from urllib.parse import unquote  # slow to load, and seldom needed

        yield unquote(text)
    if "&#" in text:
        import html

        yield html.unescape(text)
    for match in list(_UNICODE_ESCAPES.finditer(text))[:20]:
        yield "".join(chr(int(code, 16)) for code in match.group().split("\\u")[1:])
    if re.search(r"rot-?\s?13", text, re.IGNORECASE):
        yield text.translate(_ROT13)
    if re.search(r"\b(?:reverse[ds]?|backwards?)\b", text, re.IGNORECASE):
        yield text[::-1]


def _readable(raw: bytes) -> Iterator[str]:
    decoded = raw.decode("utf-8", "replace")
    if sum(char.isprintable() and char != "\ufffd" for char in decoded) >= 0.9 * len(decoded):
        yield decoded


def _folded(text: str) -> str:
    """Lower case, no accents, nothing invisible, look-alike letters of other scripts in Latin words as Latin."""
    shown = unicodedata.normalize("NFKC", visible(text)).casefold()
    plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", shown)))
    latin = _WORD.sub(_in_one_script, plain) if _GREEK_OR_CYRILLIC.search(plain) else plain
    return _SPACED_OUT.sub(lambda match: re.sub(r"[ .*_-]", "", match.group()), latin)


def _in_one_script(match: re.Match[str]) -> str:
    word = match.group()
    mixed = _LATIN.search(word) and _GREEK_OR_CYRILLIC.search(word)
    return word.translate(_CONFUSABLES) if mixed else word


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
    line = line.replace("<!--", "< !--").replace("<|", "< |").replace("📌", "")
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
