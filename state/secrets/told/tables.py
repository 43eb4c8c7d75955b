"""Passwords in tables: cells below a heading such as "password", in CSV, Markdown, or separated by tabs or blanks."""

from collections.abc import Iterator

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.settings import noun_of
from state.secrets.value import PLAIN, is_placeholder, looks_drawn, strength
from state.text.patterns import late_pattern

_BLANKS = "  "
_SEPARATORS = (",", ";", "\t", "|", _BLANKS)
_TRIM = " \t\r\"'`*"
_RULER = late_pattern(r"[\s|:+-]*")
_MOST_CELLS, _LONGEST = 64, 600
_KINDS = {Noun.PASSWORD: "password", Noun.KEY: "secret", Noun.PIN: "pin"}
_JOINED = late_pattern(r"[^\W_]{2,}(?:[._!&+-][^\W_]+)+[!?]?")
_ALIGNED = late_pattern(r"[^\s|,;](?:[^\s|,;]| (?! ))*")
Cell = tuple[str, int]  # its text, and its start in the line


def tables(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each cell below the heading of a secret."""
    separator, columns, width, at = "", dict[int, Noun](), 0, 0
    for line in text.split("\n"):
        if columns and line.strip():
            cells = _cells(line, separator)
            if len(cells) == width or (len(cells) > width and separator not in {"|", _BLANKS}):
                below = {} if _RULER.fullmatch(line) else columns
                for number, noun in below.items():
                    value, first = cells[number]
                    if _fits(value, noun) and not (separator == _BLANKS and " " in value):
                        yield _KINDS[noun], at + first, at + first + len(value)
            else:
                columns = {}
        if not columns:
            separator, columns, width = _heads(line)
        at += len(line) + 1


def _heads(line: str) -> tuple[str, dict[int, Noun], int]:
    """Return the separator of a line of headings, the columns of secrets, and the number of columns."""
    for separator in _SEPARATORS if len(line) <= _LONGEST else ():
        cells = _cells(line, separator)
        if 2 <= len(cells) <= _MOST_CELLS and (separator != "," or len(cells) > 2 or " " not in line.strip()):
            nouns = {number: _noun(name) for number, (name, _) in enumerate(cells)}
            found = {number: noun for number, noun in nouns.items() if noun in _KINDS and noun}
            plain = sum(0 < len(name) <= 32 for name, _ in cells)
            if found and plain >= 2 and len(found) < plain:
                return separator, found, len(cells)
    return "", {}, 0


def _cells(line: str, separator: str) -> list[Cell]:
    if separator == _BLANKS:
        found = _ALIGNED.finditer(line) if _BLANKS in line and len(line) <= _LONGEST else ()
        return [_trimmed(cell[0], cell.start()) for cell in found]
    cells, at = list[Cell](), 0
    for cell in line.split(separator):
        cells.append(_trimmed(cell, at))
        at += len(cell) + 1
    return cells


def _trimmed(cell: str, at: int) -> Cell:
    return cell.strip(_TRIM), at + len(cell) - len(cell.lstrip(_TRIM))


def _noun(name: str) -> Noun | None:
    return vocabulary().nouns.get(key_of(name)) or (noun_of(name) if name.startswith("login_") else None)


def _fits(value: str, noun: Noun) -> bool:
    if len(value) < 4 or is_placeholder(value):
        return False
    if noun is Noun.KEY:
        return looks_drawn(value)
    if noun is Noun.PIN:
        return value.isdigit() and len(value) <= 8
    if " " in value and not vocabulary().about.isdisjoint(value.lower().split()):
        return False  # "see safe"
    return strength(value) >= PLAIN or value.isdigit() or bool(_JOINED.fullmatch(value))
