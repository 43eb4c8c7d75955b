"""Places: where the new lines of a dream go in their sections.

A line goes directly above the older one that it is most like, if it is enough: of two values of a fact a reader meets
the current one first, and the former one right below. Else The Bond has first what the owner says, then what is
important. Active Context has first what holds until a day, by that day, and then what is newest; without a model,
which would have replaced what no longer holds, only what is newest. Lines of the owner stay where they stand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphs.ports import Memory
from graphs.sheet import Sheet
from state.changes.change import Change, CurrentLine
from state.changes.likeness import Likeness, by_meaning
from state.document.operations import Why
from state.document.sections import SectionName
from state.text.words import normalise
from state.trust import Trust

# From this likeness on, two lines stand together: by cosines of meaning, or else of words. Measured on eight lives at
# three lengths without a model: nearly half of the lines with a former value have the current one right above them
# (by words a fifth). Already at .50 a line is torn from its like, and an answer stands below what it replaced.
NEAR, NEAR_WORDS = 0.51, 0.2
# More lines are compared by their words: a text of hundreds is the owner's, and embedding it would take seconds.
MOST_EMBEDDED = 400
_ORDERED = (SectionName.BOND, SectionName.CONTEXT)


def arrange(sheet: Sheet, archive: Memory) -> None:
    """Put the new lines of this dream where they belong."""
    new = {line.id: change for change in sheet.changes if (line := _placed(sheet, change)) is not None}
    if not new:
        return
    near, least = _nearness(sheet, archive)
    sections = {name: _in_order(sheet, name, new) for name in _ORDERED}
    above = dict[str, str | None]()
    for name, change in new.items():
        line, here = sheet.lines[name], sections[change.come[0].section]
        at = _place(sheet, line, here, near, least)
        above[name] = (here[at].text if at < len(here) else "") if here else None
        here.insert(at, line)
    placed = [replace(change, above=above[name]) for name, change in new.items()]
    others = [change for change in sheet.changes if not any(change is one for one in new.values())]
    # Old text that a new line repeats leaves after that has come.
    last = [change for change in others if change.why is Why.MERGED and not change.come]
    sheet.apply_anew([*(one for one in others if one not in last), *placed, *last])


def _placed(sheet: Sheet, change: Change) -> CurrentLine | None:
    """Return the one new line of a change that stands, and has no former place in its section."""
    if len(change.come) != 1:
        return None
    (line,) = change.come
    is_free = line.section in _ORDERED and all(one.place is not line.place for one in change.gone)
    return line if is_free and line.id in sheet.lines else None


def _in_order(sheet: Sheet, name: SectionName, new: Mapping[str, Change]) -> list[CurrentLine]:
    """Return the lines of a section that the program may order, from top to bottom, without the new ones."""
    part = sheet.document.section(name)
    here = {normalise(line.text): line for line in sheet.standing if line.section is name and line.id not in new}
    found = (here.get(block.key) for block in (part.lines if part else ()))
    return [line for line in found if line is not None and line.id not in sheet.snapshot.handwritten]


def _nearness(sheet: Sheet, archive: Memory) -> tuple[Mapping[str, Mapping[str, float]], float]:
    """Return by id how near each line is to each older one, and from where on they stand together.

    A model replaces what no longer holds: its lines are compared by their words.
    """
    lines = [line for line in sheet.standing if line.section in _ORDERED]
    is_by_meaning = not sheet.is_judged and len(lines) <= MOST_EMBEDDED
    cosines = archive.alike([line.text for line in lines]) if is_by_meaning else ()
    if cosines:
        return by_meaning(lines, cosines), NEAR
    likeness = Likeness(lines)
    return {line.id: likeness.older(line) for line in lines}, NEAR_WORDS


def _place(
    sheet: Sheet,
    line: CurrentLine,
    section: Sequence[CurrentLine],
    near: Mapping[str, Mapping[str, float]],
    least: float,
) -> int:
    """Return the place of a line among those of its section."""
    own = near.get(line.id, {})
    alike = [at for at, one in enumerate(section) if own.get(one.id, 0.0) >= least]
    if alike:
        return max(alike, key=lambda at: own[section[at].id])
    for at, other in enumerate(section):
        is_pair = at > 0 and near.get(section[at - 1].id, {}).get(other.id, 0.0) >= least
        if _rank(sheet, other) >= _rank(sheet, line) and not is_pair:
            return at
    return len(section)


def _rank(sheet: Sheet, line: CurrentLine) -> tuple[float, str]:
    """Return where a line belongs in its section: smaller ones stand above."""
    if line.section is SectionName.BOND:
        return -line.importance - (line.trust is Trust.OWNER), ""
    if sheet.is_judged and line.until >= sheet.snapshot.today:
        return 0.0, line.until
    return 1.0, ""
