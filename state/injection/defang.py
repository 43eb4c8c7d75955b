"""Defang: recognises prompt injection, and makes a text harmless as a line or a quotation of MEMORY.md.

`reads_as_instruction` is a heuristic over a table of patterns (state/injection/patterns.py). `defang` takes away
whatever could change the structure of MEMORY.md, and `quote` marks a text as something that was said. An instruction
that is quoted is a mention of it; the structure is safe whatever the heuristic misses.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from state.injection.decoding import decoded, folded
from state.injection.features import by_example, commanding
from state.injection.hints import Pieces
from state.injection.patterns import Poison, spoken_patterns, squeezed_pattern, written_patterns
from state.injection.structure import FLAG, JOINERS, SELECTORS, apart, balanced, inert
from state.text.patterns import late_pattern
from state.text.words import visible
from state.trust import Trust, least_trust

LINE_CHARACTERS = 600
LONGEST_READ = 64 * 1024

_SPEAKERS = {
    Trust.WEB: "from the web",
    Trust.TOOL: "from a tool",
    Trust.AGENT: "from an agent",
    Trust.OWNER: "from the owner",
}
_QUOTED = late_pattern(r'"[^"]*" \((?:' + "|".join(_SPEAKERS.values()) + r")\)")
_QUOTE_MARKS = str.maketrans(dict.fromkeys('"“”„‟«»＂', "'"))

# Hidden text. Tag characters spell flags after a black flag only; an override turns the reading direction around.
_HIDDEN = late_pattern(
    "[\U000e0001-\U000e007f\u202d\u202e]|[\u200b-\u200d\u2060-\u2064\ufeff]{4,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
)
_SPLIT_WORD = late_pattern("(?<=[A-Za-z])[\u200b-\u200d\u2060\ufeff]+(?=[A-Za-z])")
_SPLIT_WORDS_ALLOWED = 2

_LEET = str.maketrans("013457@$!l", "oieastasii")
_SPAN = late_pattern(
    r'"[^"\n]{1,160}"|[“„][^“”„\n]{1,160}[“”]|『[^』\n]{1,160}』|«[^»\n]{1,160}»|`[^`\n]{1,160}`|「[^」\n]{1,160}」|(?<!\w)\'[^\'\n]{1,160}\'(?!\w)'
)
_DISCOURSE = late_pattern(
    r"\b(?:bots?|tried|tested|lectures?|courses?|slides|talks?|titled?|spam|phishing|quarantin\w*|"
    r"phrases?|strings?|inject\w*|jailbreak\w*|attacks?|poison\w*|payloads?|e\.g\.|examples?|such as|patterns?|"
    r"detect\w*|filters?|discuss\w*|regex\w*|tests?|keywords?|blocks?|blocked|rejects?|rejected|refuses?|tokens?|tags?|"
    r"templates?|literal|contain(?:s|ed|ing)?|saw|attempt\w*|"
    r"schulung\w*|vortrag\w*|beispiel\w*|satz|angriff\w*|blockier\w*|getestet|teste\w*|"
    r"filtre\w*|bloque\w*|exemple\w*|attaque\w*|formation|teste[rs]?|ejemplo\w*|ataque\w*|filtro\w*|prueba\w*|"
    r"frase|esempi\w*|attacc\w*|blocca\w*|exemplo\w*|bloquei\w*|"
    r"пример\w*|атак\w*|фильтр\w*|блокир\w*|фраз\w*)\b|迷惑メール|攻撃|例文|フィルタ|テスト|隔離|攻击|示例|过滤|测试|拦截"
)

_COUNTED = late_pattern(
    r"\s{0,9}(?:→|⟶|➔|➜|⇒|[-=]{1,4}>)\s{0,9}[*_]{0,3}(?=confidence[*_]{0,3}\s{0,9}:)", re.IGNORECASE
)
_MARK_RUN = late_pattern(r"([-=*#>~_<\[({.` \t])\1{6,}")


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a text reads as an instruction: the kind of trick, and the words that show it."""

    kind: Poison
    excerpt: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.excerpt}"


@lru_cache(maxsize=256)  # a note is asked for its line, its questions, its gaps and its pointer
def reads_as_instruction(text: str) -> Finding | None:
    """What in this text orders the agent about or forges structure; None when nothing does.

    A text that `quote` has made is a datum and passes; so does a phrase in quotation marks in a sentence that talks
    about phrases, attacks, tests and the like. What is too long to be read, as it is or decoded, is `Poison.UNREAD`.
    """
    if is_quoted(text):
        return None
    if len(text) > LONGEST_READ:
        return Finding(Poison.UNREAD, f"{len(text):,} characters, of which at most {LONGEST_READ:,} are read")
    hidden = _HIDDEN.search(FLAG.sub("", text))
    if hidden or len(_SPLIT_WORD.findall(text)) > _SPLIT_WORDS_ALLOWED:
        return Finding(Poison.HIDDEN, _excerpt(visible(text)))
    return _spoken(text) or _encoded(text)


def defang(text: str, limit: int = LINE_CHARACTERS) -> str:
    """The text as one line of MEMORY.md that can be nothing but a line; at most `limit` characters; idempotent.

    No control, directional or zero-width characters (but the joiners that scripts and emoji need), no heading, quote
    block, rule, fence, table, raw HTML, comment, pin, remote image, chat token, pointer, log entry or attribution;
    backticks balanced. Honest text of one line stays as it is.
    """
    seen = text
    while (once := balanced(_cut(apart(seen), limit))) != seen:
        seen = once
    return seen


def quote(text: str, trust: Trust, limit: int = LINE_CHARACTERS) -> str:
    """The text as a quoted datum of one line, `"…" (from a tool)`, in which nothing is live; idempotent.

    Marks of quotation inside become single ones; links, tags and emphasis come apart.
    """
    speaker = f" ({_SPEAKERS[trust]})"
    if is_quoted(text) and text.endswith(speaker) and len(text) <= limit:
        return text
    bare = text[1 : -len(speaker) - 1] if _QUOTED.fullmatch(text) and text.endswith(speaker) else text
    seen, room = bare, max(1, limit - len(speaker) - 2)
    # Behind a mark that the cut leaves at the end there is no room for the blank that takes it apart: cut before it.
    while (once := defang(inert(seen).translate(_QUOTE_MARKS), room)) != seen or inert(seen) != seen:
        room -= once == seen
        seen = once
    return f'"{seen}"{speaker}'


def is_quoted(text: str) -> bool:
    """Whether `quote` could have made this: one quotation, its speaker, and no structure."""
    if not _QUOTED.fullmatch(text):
        return False
    inner = text[1 : text.rindex('"')]
    return inert(inner) == inner and defang(inner, len(text)) == inner and defang(text, len(text)) == text


def unquoted(text: str) -> tuple[str, Trust | None]:
    """What a quotation quotes, and whom; a text that is none, and None."""
    if not is_quoted(text):
        return text, None
    inner, _, speaker = text[1:].rpartition('" (')
    return inner, next(trust for trust, said in _SPEAKERS.items() if speaker == f"{said})")


def attributed(text: str, trust: Trust) -> str:
    """How a line of this trust may stand in MEMORY.md: the owner's as it is, a stranger's as a quotation.

    This does not ask whether a stranger's text looks like an order. What an agent said is quoted when it reads as an
    order, or pretends to quote somebody else.
    """
    text = _COUNTED.sub(", ", text)  # only the program counts
    if trust is Trust.OWNER:
        return text
    if trust is Trust.AGENT:
        pretends = unquoted(text)[1] not in {None, trust}
        return quote(text, trust) if pretends or reads_as_instruction(text) else text
    return quote(text, trust)


def spoken_trust(text: str, trust: Trust) -> Trust:
    """The trust of a text: what stands as a quotation has its speaker's, if that is less."""
    _, speaker = unquoted(text)
    return least_trust([trust, speaker]) if speaker else trust


def _spoken(text: str) -> Finding | None:
    # Runs of blank rows and of marks say nothing, and cost patterns that look for what stands behind them.
    plain = folded(text)
    if len(plain) > 2 * LONGEST_READ:  # one character may stand for eighteen
        return Finding(Poison.UNREAD, f"{len(plain):,} characters, spelt out")
    rows = "\n".join(row for row in map(str.strip, plain.split("\n")) if row)
    read = _MARK_RUN.sub(r"\1\1\1\1\1\1", rows)
    outside = _SPAN.sub('""', read)
    said = outside if outside != read and _DISCOURSE.search(outside) else read
    return _structural(read, said) or _worded(said)


def _structural(read: str, said: str) -> Finding | None:
    """A trick that shows in what is written; `said` is the same without what is only mentioned."""
    pieces = Pieces(read)
    for shown in written_patterns():
        if pieces.may_match(shown.hints):
            match = shown.pattern.search(said if shown.kind is Poison.FAKE_SYSTEM else read)
            if match:
                return Finding(shown.kind, _excerpt(match.group()))
    return Finding(Poison.STRUCTURE, _excerpt(read[-80:])) if _escapes_fence(read) else None


def _worded(said: str) -> Finding | None:
    """A trick that shows in the words, by one pattern or by several signs."""
    flat = " ".join(said.split())
    pieces = Pieces(flat)
    for shown in spoken_patterns():
        match = shown.pattern.search(flat) if pieces.may_match(shown.hints) else None
        if match:
            return Finding(shown.kind, _excerpt(match.group()))
    squeezed = squeezed_pattern().search(re.sub(r"[\W_]+", "", flat.translate(_LEET)))
    if squeezed:
        return Finding(Poison.OBFUSCATED, _excerpt(squeezed.group()))
    habit = by_example(said)
    if habit:
        return Finding(Poison.FAKE_SYSTEM, _excerpt(habit))
    signs = commanding(flat, pieces)
    return Finding(signs[0], _excerpt(signs[1])) if signs else None


def _encoded(text: str) -> Finding | None:
    said = decoded(text)
    if said is None:
        return Finding(Poison.UNREAD, "more is encoded in it than is read")
    found = _spoken(said) if said else None
    return Finding(Poison.ENCODED, found.excerpt) if found else None


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


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    room = line[: max(0, limit - 1)].rstrip(JOINERS + SELECTORS)
    words = room.rsplit(" ", 1)[0] if " " in room[limit // 2 :] else room
    return words.rstrip() + "…"
