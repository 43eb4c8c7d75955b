"""Redaction of MEMORY.md, line by line: the words of one line make no secret of another's.

A dream redacts each line that it writes, so what is written is shown. Lines that a person typed are redacted in the
same way whenever they are shown. What a person typed below a heading of their own, or below a line that ends in a
colon, is judged together with that name; private keys and seed phrases may take many lines. Any other secret that is
split over two lines is not recognised.
"""

from collections.abc import Callable, Sequence

from state.document.markdown import heading_of, rows_of, units, without_marker
from state.document.sections import TITLE, SectionName
from state.secrets.policy import Redaction

# Returns the redacted texts that a line rests on.
Grounds = Callable[[str], Sequence[str]]

_NAMES = frozenset(name.casefold() for name in (TITLE.lstrip("# "), *SectionName))
_NAMING = (":", "：", "=")


def no_grounds(_: str) -> Sequence[str]:
    """Return no texts, for a line that no dream has written."""
    return ()


def redacted_line(text: str, redaction: Redaction, grounds: Grounds = no_grounds, name: str = "") -> str:
    """Return a line, which is named by what stands above it, without its secrets.

    What the texts that it rests on show is no secret in it either: a dream wrote it with them in view.
    """
    said = f"{name}\n{text}" if name else text
    shown = redaction.of(said)
    if shown != said and (known := grounds(text)):
        shown = redaction.of(said, [" ".join(one.split()) for one in known])  # a line of a note is one row
    return shown.partition("\n")[2] if name and "\n" in shown else shown


def redacted_lines(text: str, redaction: Redaction, grounds: Grounds = no_grounds) -> str:
    """Return a text of many lines without its secrets."""
    pieces, heading, name, is_used = list[str](), "", "", False
    for unit in units(rows_of(redaction.across(text))):
        lead = unit[: len(unit) - len(without_marker(unit))]
        said = unit[len(lead) :].rstrip()
        if (level := heading_of(unit)) is not None:
            heading, name, is_used = "" if level[1].casefold() in _NAMES else said, "", False
        elif not said and is_used:
            name = ""
        above = name or heading if level is None else ""
        pieces += [lead, redacted_line(said, redaction, grounds, above), unit[len(lead) + len(said) :]]
        if level is None and said:
            is_used = True
            if said.endswith(_NAMING):
                name, is_used = said.rpartition("\n")[2].strip(), False
    return "".join(pieces)
