"""Bootstrap: what an agent reads at session start, MEMORY.md within its budget and the pending notes."""

import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from state.reading import GREETING, as_given, left_out
from state.scratch import Note
from state.secrets.policy import DEFAULT

# Context window of the reading model, in tokens, and the characters that MEMORY.md may have for it.
BUDGETS = ((200_000, 8_000), (128_000, 6_000), (64_000, 4_000))
LEAST_BUDGET = 3_200
TRUNCATED = "[Full working memory available via memory_search]"
NOTES_HEADING = "## Unsynthesized Notes (pending dream consolidation)"
EVERYWHERE_HEADING = "# In Every Project"
# The notes have half as much room as MEMORY.md, beside it.
NOTES_SHARE = 0.5
NOTE_CHARACTERS = 600
# Of the room of MEMORY.md, what is true everywhere takes so much at most; the project has what that leaves.
EVERYWHERE_SHARE = 1 / 3
# Of MEMORY.md, so many times its budget: what is redacted may become shorter.
_LOOKED_AT = 4
_LONGEST_EVERYWHERE = _LOOKED_AT * BUDGETS[0][1]
# A hundred fit; some may be forgotten.
_NOTES_LOOKED_AT = 1_000
# So often room is made where characters take more bytes than those before; at most so many.
_TRIES, _LONGEST_CHARACTER = 4, 4
# The heading of the notes, the line about those left out, and the blank lines.
_AROUND_NOTES = len(NOTES_HEADING) + 60
_BETWEEN = "\n\n"


class Bootstrap(NamedTuple):
    """Its parts and what they leave out. `truncated`: MEMORY.md was longer than its budget. A greeting comes first.

    `more`: there are more than `left_out` older notes, which were not read. `everywhere` is what the global workspace
    says, `attention` the one line for a person, `lines` how many rows and notes are given, headings apart,
    and `most` how many characters it may have altogether (0: no limit). `digest`: of all of MEMORY.md, `digest_of`,
    `version` the last one that was committed then, `cut` how much was not given and why, by the fields of a receipt.
    """

    memory: str
    notes: tuple[str, ...]
    left_out: int
    truncated: bool
    more: bool = False
    everywhere: str = ""
    attention: str = ""
    lines: int = 0
    most: int = 0
    cut: Mapping[str, int] = MappingProxyType({})
    digest: str = ""
    version: int = 0

    @property
    def text(self) -> str:
        """Return all parts as Markdown."""
        parts = [self.everywhere] if self.everywhere else []
        parts += [self.memory.rstrip("\n")] if self.memory.strip() else []
        if self.notes:
            rows = [NOTES_HEADING, "", *self.notes]
            if self.left_out or self.more:
                number = f"more than {self.left_out}" if self.more else str(self.left_out)
                rows.append(f"- [{number} older notes: use memory_search]")
            parts.append("\n".join(rows))
        parts += [self.attention] if self.attention else []
        return _BETWEEN.join((GREETING, *parts)) + "\n" if parts else ""


def digest_of(memory: str) -> str:
    """Return a short digest that tells one MEMORY.md from another, no proof of it: eight hexadecimal signs."""
    return f"{zlib.crc32(memory.encode(errors='replace')):08x}"


def budget_for(context_window: int) -> int:
    """Return how many characters MEMORY.md may have for a model with a context of so many tokens."""
    return next((characters for window, characters in BUDGETS if context_window >= window), LEAST_BUDGET)


def bootstrap(
    memory: str,
    notes: Iterable[Note],
    context_window: int,
    most: int | None = None,
    redacted: Callable[[str], str] = DEFAULT.of,
    shown_of: Callable[[str], str] = str,
    *,
    more: bool = False,
    everywhere: str = "",
    attention: str = "",
    most_bytes: int | None = None,
) -> Bootstrap:
    """Return what fits: MEMORY.md as it is given, cut at a line, and pending notes, newest first; without secrets.

    `most`: of characters altogether, where whoever carries the text cuts it off; the notes make room. `most_bytes`:
    the same of UTF-8. A model reads it, and what no dream has seen, or the owner wrote by hand, nobody has redacted:
    `redacted` does. `shown_of` says what of a note may be shown besides: of one that says "" nothing. `more`: there
    are older notes than these. `everywhere` is the MEMORY.md of the global workspace, of which The Bond and The
    Phenotype are given, and `attention` a line at the end; both have their room within that of MEMORY.md.
    """
    budget, redacted = budget_for(context_window), cache(redacted)
    # No more than may be shown is looked through: a log of a million notes, or a file of megabytes, takes no longer.
    looked_at = _LOOKED_AT * budget
    newest, count = _newest(notes)
    rest = memory.count("\n", looked_at) if len(memory) > looked_at else None
    sources = _Sources(
        as_given(redacted(memory[:looked_at])),
        rest,
        newest,
        count,
        more,
        everywhere,
        attention,
        budget,
        redacted,
        shown_of,
    )
    ready = _fitting(sources, most)
    for _ in range(_TRIES):
        characters, size = len(ready.text), len(ready.text.encode(errors="replace"))
        if most_bytes is None or size <= most_bytes:
            return ready
        ready = _fitting(sources, characters * most_bytes // size - 1)
    return _fitting(sources, (most_bytes or 0) // _LONGEST_CHARACTER)


class _Sources(NamedTuple):
    """What a bootstrap is made of: MEMORY.md as far as it is looked at, and how many rows stand below (None: all is).

    `newest` are the pending notes, the newest first, of as many as are `pending`.
    """

    whole: str
    rest: int | None
    newest: Sequence[Note]
    pending: int
    more: bool
    everywhere: str
    attention: str
    budget: int
    redacted: Callable[[str], str]
    shown_of: Callable[[str], str]


def _fitting(sources: _Sources, host: int | None) -> Bootstrap:
    """Return what has room in so many characters. The greeting takes none of those of MEMORY.md."""
    whole, budget = sources.whole, sources.budget
    most = None if host is None else host - len(GREETING) - len(_BETWEEN)
    room = budget if most is None else min(budget, most)
    taken = len(_BETWEEN) + len(sources.attention) if sources.attention else 0
    share = int((room - taken) * EVERYWHERE_SHARE)
    # What certainly fits of the project need not be said twice.
    surely = _cut(whole, room - taken - share)[0] if sources.everywhere else ""
    everywhere, shared, unshared = _of_everywhere(sources, surely, share)
    taken += len(_BETWEEN) + len(everywhere) if everywhere else 0
    kept, truncated = _cut(whole, room - taken)
    shown = _marked(kept, room - taken) if truncated else kept
    beside = int(budget * NOTES_SHARE)
    left = beside if most is None else min(beside, most - taken - len(shown) - _AROUND_NOTES)
    notes, withheld, kept_out = _of_notes(sources, left, beside)
    fitting = _rows(_cut(whole, budget - taken)[0])
    return Bootstrap(
        shown,
        notes,
        sources.pending - withheld - len(notes),
        truncated=truncated or sources.rest is not None,
        more=sources.more,
        everywhere=everywhere,
        attention=sources.attention,
        lines=shared + _rows(kept) + len(notes),
        most=host or 0,
        cut={
            **unshared,
            "budget": _rows(whole) + (sources.rest or 0) - fitting,
            "host": fitting - _rows(kept),
            "host_notes": kept_out,
            "forgotten": unshared["forgotten"] + withheld,
        },
    )


def room_taken(ready: Bootstrap) -> int:
    """Count the characters of the budget that stand beside MEMORY.md."""
    return sum(len(_BETWEEN) + len(part) for part in (ready.everywhere, ready.attention) if part)


def rows_given(memory: str, cut: int, budget: int) -> int:
    """Count the rows of this MEMORY.md that were given from the top, those too that none is given, where it was cut.

    `cut`: how many rows were not given. A receipt of an earlier dreamd says nothing of rows: its budget tells then.
    """
    rows = memory.split("\n")
    if not cut:
        return _cut(memory, budget)[0].count("\n") + 1
    omitted = left_out(memory)
    left = sum(_counts(row) for at, row in enumerate(rows) if at not in omitted) - cut
    for at, row in enumerate(rows):
        left -= _counts(row) and at not in omitted
        if left < 0:
            return at
    return len(rows)


def _of_everywhere(sources: _Sources, project: str, room: int) -> tuple[str, int, dict[str, int]]:
    """Return the lines of The Bond and The Phenotype that have room, from the top; how many, and what is left out."""
    if not sources.everywhere.strip():
        return "", 0, {"everywhere": 0, "same": 0, "forgotten": 0}
    # A session start without a global workspace does not wait for it.
    from state.document.document import parse
    from state.document.sections import SectionName

    document = parse(sources.everywhere[:_LONGEST_EVERYWHERE])
    found = [document.section(name) for name in (SectionName.BOND, SectionName.PHENOTYPE)]
    parts = parse(sources.redacted("".join(part.raw for part in found if part is not None))).parts
    said = {block.text for part in parse(project).parts for block in part.lines}
    rows, size, lines = [EVERYWHERE_HEADING], len(EVERYWHERE_HEADING), 0
    cut = same = forgotten = 0
    for part in parts:
        new = ["", f"## {part.name}", ""]
        for block in part.lines if part.name else ():
            if block.text in said:
                same += 1
            elif sources.shown_of(block.text) != block.text:
                forgotten += 1
            else:
                said.add(block.text)
                new.append(block.raw.strip("\n"))
                needed = sum(len(row) + 1 for row in new)
                if cut or size + needed > room:
                    cut += 1
                    new.pop()
                    continue
                rows, size, lines, new = [*rows, *new], size + needed, lines + 1, []
    return "\n".join(rows) if lines else "", lines, {"everywhere": cut, "same": same, "forgotten": forgotten}


def _newest(notes: Iterable[Note]) -> tuple[list[Note], int]:
    """Return the newest notes, the newest first, no more than may be shown; and how many there are."""
    count = 0

    def numbered() -> Iterator[tuple[datetime, int, Note]]:
        nonlocal count
        for count, note in enumerate(notes, 1):
            yield note.at, count, note

    # Of one second, what was appended later is newer.
    found = heapq.nlargest(_NOTES_LOOKED_AT, numbered(), key=lambda one: one[:2])
    return [note for _, _, note in found], count


def _of_notes(sources: _Sources, room: int, beside: int) -> tuple[tuple[str, ...], int, int]:
    """Return the newest notes that have room, how many are forgotten, and how many a host's limit alone keeps out.

    `beside` is the room that they would have without that limit.
    """
    rows: list[str] = []
    withheld = kept_out = used = 0
    for note in sources.newest:
        text = sources.shown_of(sources.redacted(note.text))
        if not text:
            withheld += 1
            continue
        row = _row(note._replace(text=text))
        used += len(row) + 1
        if used > beside:
            break
        if kept_out or used > room:
            kept_out += 1
            continue
        rows.append(row)
    return tuple(rows), withheld, kept_out


def _cut(memory: str, room: int) -> tuple[str, bool]:
    """Return the whole rows from the top that have room, and whether any is left out; the mark has its room then."""
    if len(memory.rstrip("\n")) < max(1, room):
        return memory, False
    left = room - len(TRUNCATED) - 3  # the blank row and the last line end
    if left <= 0:
        return "", True
    at = memory.rfind("\n", 0, left + 1)
    return memory[: at if at > 0 else left].rstrip("\n"), True


def _marked(kept: str, room: int) -> str:
    """Return what was kept, and below it that there is more."""
    if not kept:
        return f"{TRUNCATED}\n" if len(TRUNCATED) < room else ""
    return f"{kept}\n\n{TRUNCATED}\n"


def _rows(text: str) -> int:
    """Count the rows that are neither blank nor headings."""
    return sum(map(_counts, text.split("\n")))


def _counts(row: str) -> bool:
    return bool(row.strip()) and not row.startswith("#")


def _row(note: Note) -> str:
    # A note is data: on one line it can forge neither a heading nor a second note; an order stands as a quotation.
    auto = "[AUTO] " if note.auto else ""
    stamp = note.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"- [{stamp}] (importance: {note.importance:g}) {auto}{_shown(note.text)}"


def _shown(text: str) -> str:
    """Write a pending note as a dream would."""
    from state.text.line import as_line  # without pending notes a session start does not wait for it

    return as_line(text, NOTE_CHARACTERS)
