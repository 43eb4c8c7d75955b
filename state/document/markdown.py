"""Markdown: splits a text into headings and units for the document.

A unit is a list item or paragraph with its continuation, a fence, a comment, or one row of anything else. An unclosed
fence or comment is ordinary text, so that what follows it is still read. Parsing takes linear time for every text.
"""

import re
from collections.abc import Collection, Sequence

_LONGEST_PLACEHOLDER = 120

_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*))?")
_FENCE = re.compile(r"(?: {0,3}|(?P<item> ?(?:[-*+]|\d{1,9}[.)])[ \t]+))(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_CLOSING = re.compile(r"(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})[ \t]*")
_ITEM = re.compile(r" ?([-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}")
_STAMP = re.compile(r"[_*]?Last dream:")
_PLACEHOLDER = re.compile(
    r"[\s_*+(\[<-]*(?:nothing(?: here)? yet|none(?: yet)?|n/?a|tbd|to ?do|empty|unknown|placeholder(?: text)?|"
    r"no [\w ]{1,40} yet|to be (?:filled(?: in)?|determined|added)(?: later)?|…|\{[\w ,.:/'-]*\}|)[\s.…_*)\]>-]*",
    re.IGNORECASE,
)


def rows_of(text: str) -> list[str]:
    """Return the rows with their newlines; only a line feed ends a row."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def heading_of(row: str) -> tuple[int, str] | None:
    """Return level and text of a heading; None for another row."""
    if "#" not in row:
        return None
    match = _HEADING.fullmatch(row.rstrip("\r\n").removeprefix("\ufeff"))
    if match is None:
        return None
    text = (match[2] or "").rstrip(" \t")
    bare = text.rstrip("#")
    closed = not bare or bare[-1] in " \t"
    return len(match[1]), bare.rstrip(" \t") if closed else text


def marker_of(row: str) -> str | None:
    """Return the bullet or number of a list item; None for another row."""
    match = _ITEM.match(row.rstrip("\r\n"))
    return match[1] if match else None


def without_marker(row: str) -> str:
    """Return the row without its bullet or number, if it has one."""
    match = _ITEM.match(row)
    return row[match.end() :] if match else row


def opens_fence(row: str) -> bool:
    """Return whether the row can open a code fence, at the margin or as a list item."""
    return _fence(row) is not None


def is_rule(row: str) -> bool:
    """Return whether the row is a thematic break."""
    return bool(_RULE.fullmatch(row.rstrip("\r\n")))


def is_stamp(row: str) -> bool:
    """Return whether the row is the stamp of the last dream."""
    return bool(_STAMP.match(row.strip()))


def says_nothing(text: str) -> bool:
    """Return whether the text is only a placeholder of a template or an empty item."""
    bare = text.strip()
    return len(bare) <= _LONGEST_PLACEHOLDER and bool(_PLACEHOLDER.fullmatch(bare)) and not is_rule(bare)


def is_filler(row: str) -> bool:
    """Return whether the row is blank, a heading, a rule, or a comment followed by nothing."""
    bare = row.strip()
    return not bare or bool(heading_of(row)) or is_rule(row) or _is_comment(bare)


def part_starts(rows: Sequence[str]) -> list[int]:
    """Return the places of the headings of level one and two outside fences and comments."""
    starts, at, spans = [], 0, _Spans(rows)
    while at < len(rows):
        heading = heading_of(rows[at])
        if heading and heading[0] <= 2 and heading[1]:
            starts.append(at)
        at = spans.end(at) or at + 1
    return starts


def units(rows: Sequence[str], alone: Collection[str] = ()) -> list[str]:
    """Split the rows into units, which joined give the rows. A row in `alone` is a unit by itself."""
    found, at, spans = [], 0, _Spans(rows)
    while at < len(rows):
        end = spans.end(at)
        if end is None:
            end = at + 1
            goes_on = _goes_on(rows[at]) and rows[at].strip() not in alone
            while goes_on and end < len(rows) and _continues(rows[end]) and rows[end].strip() not in alone:
                if spans.end(end) is not None:
                    break
                end += 1
        found.append("".join(rows[at:end]))
        at = end
    return found


class _Spans:
    """Finds where the fences and comments of these rows end. Query it from top to bottom."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._unclosed: dict[str, int] = {}  # no fence of this many marks or more is closed further down

    def end(self, at: int) -> int | None:
        """Return the place after the fence or comment that starts here; None if none starts or it is unclosed."""
        bare = self._rows[at].strip()
        if bare.startswith("<!--"):
            return None if "-->" in bare else self._search(at, "<!--", 1)
        fence = _fence(self._rows[at])
        return self._search(at, fence[0], fence[1]) if fence else None

    def _search(self, at: int, sort: str, marks: int) -> int | None:
        if marks >= self._unclosed.get(sort, marks + 1):
            return None
        for place in range(at + 1, len(self._rows)):
            if _closes(self._rows[place], sort, marks):
                return place + 1
        self._unclosed[sort] = marks
        return None


def _fence(row: str) -> tuple[str, int] | None:
    """Return the kind of fence (its mark, plus "-" inside a list item) and the number of marks."""
    if "`" not in row and "~" not in row:
        return None
    match = _FENCE.fullmatch(row.rstrip("\r\n"))
    if match is None or (match["marks"][0] == "`" and "`" in match["info"]):
        return None
    return match["marks"][0] + ("-" if match["item"] else ""), len(match["marks"])


def _closes(row: str, sort: str, marks: int) -> bool:
    if sort == "<!--":
        return "-->" in row
    match = _CLOSING.fullmatch(row.rstrip("\r\n"))
    if match is None or match["marks"][0] != sort[0] or len(match["marks"]) < marks:
        return False
    return sort.endswith("-") or len(match["indent"].expandtabs(4)) <= 3


def _is_comment(bare: str) -> bool:
    if not bare.startswith("<!--"):
        return False
    rest = bare.partition("-->")[2].strip()
    return not rest or rest.startswith("<!--")


def _goes_on(row: str) -> bool:
    """Return whether the next row may belong to the unit that this row starts."""
    if is_filler(row) or is_stamp(row):
        return False
    return marker_of(row) is not None or not says_nothing(row)


def _continues(row: str) -> bool:
    return not (is_filler(row) or is_stamp(row) or marker_of(row) is not None)
