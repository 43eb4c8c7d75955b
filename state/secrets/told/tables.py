"""Passwords in tables: what stands below a heading such as "password", in CSV, in Markdown, between tabs."""

from collections.abc import Iterator

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.settings import noun_of
from state.secrets.value import PLAIN, is_placeholder, looks_drawn, strength
from state.text.patterns import late_pattern

_SEPARATORS = (",", ";", "\t", "|")
_TRIM = " \t\r\"'`*"
_RULER = late_pattern(r"[\s|:+-]*")
_MOST_CELLS, _LONGEST = 64, 600
_KINDS = {Noun.PASSWORD: "password", Noun.KEY: "secret", Noun.PIN: "pin"}
_JOINED = late_pattern(r"[^\W_]{2,}(?:[._!&+-][^\W_]+)+[!?]?")
_ALIGNED = late_pattern(r"[^\s|,;](?:[^\s|,;]| (?! ))*")


def tables(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each cell below the heading of a secret."""
    heads: tuple[str, dict[int, Noun], int] | None = None
    at = 0
    yield from _aligned(text)
    for line in text.split("\n"):
        if heads:
            separator, columns, width = heads
            cells = line.split(separator)
            if len(cells) == width or (len(cells) > width and separator != "|"):
                if not _RULER.fullmatch(line):
                    yield from _secrets(cells, columns, at)
            elif not line.strip():
                pass
            else:
                heads = None
        heads = heads or _heads(line)
        at += len(line) + 1


def _heads(line: str) -> tuple[str, dict[int, Noun], int] | None:
    """Return the separator of a line of headings, the columns of secrets by number, and how many columns it has."""
    if len(line) > _LONGEST:
        return None
    for separator in _SEPARATORS:
        cells = line.split(separator)
        if 2 <= len(cells) <= _MOST_CELLS and (separator != "," or len(cells) > 2 or " " not in line.strip()):
            nouns = {number: _noun(cell) for number, cell in enumerate(cells)}
            found = {number: noun for number, noun in nouns.items() if noun in _KINDS}
            plain = sum(0 < len(cell.strip(_TRIM)) <= 32 for cell in cells)
            if found and plain >= 2 and len(found) < plain:
                return separator, {number: noun for number, noun in found.items() if noun}, len(cells)
    return None


def _noun(cell: str) -> Noun | None:
    name = cell.strip(_TRIM)
    return vocabulary().nouns.get(key_of(name)) or (noun_of(name) if name.startswith("login_") else None)


def _secrets(cells: list[str], columns: dict[int, Noun], at: int) -> Iterator[tuple[str, int, int]]:
    for number, cell in enumerate(cells):
        value = cell.strip(_TRIM)
        if (noun := columns.get(number)) and len(value) >= 4 and not is_placeholder(value) and _fits(value, noun):
            start = at + cell.index(value)
            yield _KINDS[noun], start, start + len(value)
        at += len(cell) + 1


def _aligned(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the same of columns that blanks keep apart."""
    columns: dict[int, Noun] = {}
    width = at = 0
    for line in text.split("\n"):
        cells = list(_ALIGNED.finditer(line)) if "  " in line and len(line) <= _LONGEST else []
        if len(cells) == width > 1 and columns:
            for number, noun in columns.items():
                value = cells[number][0].strip(_TRIM)
                if len(value) >= 4 and " " not in value and not is_placeholder(value) and _fits(value, noun):
                    start = at + cells[number].start() + cells[number][0].index(value)
                    yield _KINDS[noun], start, start + len(value)
        else:
            nouns = {number: _noun(cell[0]) for number, cell in enumerate(cells[:_MOST_CELLS])}
            columns = {number: noun for number, noun in nouns.items() if noun in _KINDS and noun}
            width = len(cells) if len(columns) < len(cells) else 0
        at += len(line) + 1


def _fits(value: str, noun: Noun) -> bool:
    if noun is Noun.KEY:
        return looks_drawn(value)
    if noun is Noun.PIN:
        return value.isdigit() and len(value) <= 8
    if " " in value and not vocabulary().about.isdisjoint(value.lower().split()):
        return False  # "see safe"
    return strength(value) >= PLAIN or value.isdigit() or bool(_JOINED.fullmatch(value))
