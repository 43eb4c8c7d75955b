"""Bootstrap: what an agent reads at session start: MEMORY.md within its budget, and the pending notes."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from state.document.redaction import redacted_lines
from state.reading import BETWEEN, Reading, as_given, head, line_digest, with_days, without_answered
from state.scratch import Note
from state.secrets.policy import DEFAULT

# Context window of the reading model, in tokens, and the characters that MEMORY.md may take for it.
BUDGETS = ((200_000, 8_000), (128_000, 6_000), (64_000, 4_000))
LEAST_BUDGET = 3_200
TRUNCATED = "[Full working memory available via memory_search]"
NOTES_HEADING = "## Unsynthesized Notes (pending dream consolidation)"
EVERYWHERE_HEADING = "# In Every Project"
HERE_HEADING = "# In This Project"
# The notes may take half as much as MEMORY.md, in addition to it.
NOTES_SHARE = 0.5
# A pending note is shown up to this length, and few of them as far as there is room.
NOTE_CHARACTERS = 600
# The largest share of MEMORY.md's budget for the global workspace; the project gets the rest.
EVERYWHERE_SHARE = 1 / 3
# How much of MEMORY.md is read, as a multiple of its budget: redaction may shorten it.
_LOOKED_AT = 4
_LONGEST_EVERYWHERE = _LOOKED_AT * BUDGETS[0][1]
# About a hundred fit, but some may have been forgotten.
_NOTES_LOOKED_AT = 1_000
# How many may answer an open question; about as many are given.
_NOTES_READ = 100
# Attempts to meet a limit in bytes by cutting characters in proportion, and the most bytes a character takes.
_TRIES, _LONGEST_CHARACTER = 4, 4
# The heading of the notes, the row about omitted notes, and blank rows.
_AROUND_NOTES = len(NOTES_HEADING) + 60
# A note's bullet, stamp and importance.
_AROUND_NOTE = 60


class Redacted(NamedTuple):
    """How secrets are removed from a note, and from a MEMORY.md: line by line."""

    note: Callable[[str], str]
    memory: Callable[[str], str]


def _default_memory(text: str) -> str:
    return redacted_lines(text, DEFAULT)


DEFAULT_REDACTED = Redacted(DEFAULT.of, _default_memory)


class Bootstrap(NamedTuple):
    """The parts of a bootstrap and what they leave out. `truncated`: MEMORY.md exceeded its budget.

    `more`: there are more older notes than `left_out`, which were not read. `everywhere` comes from the global
    workspace, `attention` is a line for a person, `lines` the number of rows and notes given, without headings, and
    `most` the limit in characters for everything (0: none). `head` is the line above all of it, `whole` what
    of MEMORY.md would be given if there were room, `version` the last committed version, `cut` how much was left out
    by reason, in the fields of a receipt. `dropped` are the lines left out for more important ones, by `line_digest`.
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
    whole: str = ""
    version: int = 0
    head: str = ""
    dropped: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Return the line at the head and all parts as Markdown."""
        parts = [one for one in (self.head, self.everywhere) if one]
        if self.memory.strip():  # below what is true everywhere it needs a heading of its own
            parts += [*([HERE_HEADING] if self.everywhere else []), self.memory.rstrip("\n")]
        if self.notes:
            rows = [NOTES_HEADING, "", *self.notes]
            if self.left_out or self.more:
                number = f"more than {self.left_out}" if self.more else str(self.left_out)
                rows.append(f"- [{number} older notes: use memory_search]")
            parts.append("\n".join(rows))
        parts += [self.attention] if self.attention else []
        return BETWEEN.join(parts) + "\n" if parts[bool(self.head) :] else ""


def budget_for(context_window: int) -> int:
    """Return how many characters of MEMORY.md are given, with the line above it, for this context window (tokens)."""
    return next((characters for window, characters in BUDGETS if context_window >= window), LEAST_BUDGET)


def bootstrap(
    memory: str,
    notes: Iterable[Note],
    context_window: int,
    most: int | None = None,
    redacted: Redacted = DEFAULT_REDACTED,
    shown_of: Callable[[str], str] = str,
    *,
    more: bool = False,
    everywhere: str = "",
    attention: str = "",
    most_bytes: int | None = None,
    as_of: str = "",
    first: str = "",
    reading: Reading = Reading(),  # noqa: B008 - it is immutable
) -> Bootstrap:
    """Return what fits, without secrets: MEMORY.md and pending notes, newest first.

    Of a MEMORY.md that does not fit, the lines are left out that a dream would evict first (`reading`). What is still
    too long then is cut at a row.

    `most` is the limit in characters of whoever carries the text and would cut it off; the notes yield first.
    `most_bytes` is the same in bytes of UTF-8. `redacted` removes secrets: a model reads the text, and no dream has
    redacted notes appended by hand and the owner's edits. `shown_of` returns what of a note may be shown; "" hides
    it. `more`: there are older notes than these. `everywhere` is the MEMORY.md of the global workspace, whose Bond
    and Phenotype are given, and `attention` a line at the end; both count towards the budget of MEMORY.md, as does
    the line at the head, which names the day of the last dream, `as_of`, below the line `first`, if there is one.
    """
    budget = budget_for(context_window)
    # Read no more than may be shown, so that a log of a million notes or a huge file takes no longer.
    looked_at = _LOOKED_AT * budget
    newest, count = _newest(notes)
    rest = memory.count("\n", looked_at) if len(memory) > looked_at else None
    sources = _Sources(
        without_answered(
            as_given(with_days(redacted.memory(memory[:looked_at]), reading.days)),
            (note.text for note in newest[:_NOTES_READ]),
        ),
        rest,
        newest,
        count,
        more,
        everywhere,
        attention,
        budget,
        Redacted(cache(redacted.note), cache(redacted.memory)),
        shown_of,
        f"{first}\n{head(as_of)}" if first else head(as_of),
        reading.leaving,
    )
    ready = _fitting(sources, most)
    for _ in range(_TRIES):
        characters, size = len(ready.text), len(ready.text.encode(errors="replace"))
        if most_bytes is None or size <= most_bytes:
            return ready
        ready = _fitting(sources, characters * most_bytes // size - 1)
    return _fitting(sources, (most_bytes or 0) // _LONGEST_CHARACTER)


class _Sources(NamedTuple):
    """The inputs of a bootstrap: the part of MEMORY.md that is read, and the number of rows below it (None: no rest).

    `newest` are the newest of the `pending` notes, newest first.
    """

    whole: str
    rest: int | None
    newest: Sequence[Note]
    pending: int
    more: bool
    everywhere: str
    attention: str
    budget: int
    redacted: Redacted
    shown_of: Callable[[str], str]
    head: str
    leaving: tuple[int, ...]


def _fitting(sources: _Sources, host: int | None) -> Bootstrap:
    """Return what fits into the host's limit (characters)."""
    whole, around = sources.whole, len(sources.head) + len(BETWEEN)
    budget = sources.budget - around
    most = None if host is None else host - around
    room = budget if most is None else min(budget, most)
    taken = len(BETWEEN) + len(sources.attention) if sources.attention else 0
    share = int((room - taken) * EVERYWHERE_SHARE)
    # Lines of the project that certainly fit need not be repeated from the global workspace.
    surely = _cut(whole, room - taken - share, sources.leaving).text if sources.everywhere else ""
    everywhere, shared, unshared = _of_everywhere(sources, surely, share)
    taken += 2 * len(BETWEEN) + len(everywhere) + len(HERE_HEADING) if everywhere else 0
    kept = _cut(whole, room - taken, sources.leaving)
    shown = _marked(kept.text, room - taken) if kept.is_cut else kept.text
    beside = int(budget * NOTES_SHARE)
    left = beside if most is None else min(beside, most - taken - len(shown) - _AROUND_NOTES)
    notes, withheld, kept_out = _of_notes(sources, left, beside)
    fitting = _rows(_cut(whole, budget - taken, sources.leaving).text)
    return Bootstrap(
        shown,
        notes,
        sources.pending - withheld - len(notes),
        truncated=kept.is_cut or sources.rest is not None,
        more=sources.more,
        everywhere=everywhere,
        attention=sources.attention,
        lines=shared + _rows(kept.text) + len(notes),
        most=host or 0,
        head=sources.head,
        dropped=kept.dropped,
        whole=whole,
        cut={
            **unshared,
            "budget": _rows(whole) + (sources.rest or 0) - fitting,
            "host": fitting - _rows(kept.text),
            "host_notes": kept_out,
            "forgotten": unshared["forgotten"] + withheld,
        },
    )


def room_taken(ready: Bootstrap) -> int:
    """Return how many characters of the budget go to parts other than MEMORY.md."""
    parts = (ready.everywhere, HERE_HEADING if ready.everywhere else "", ready.attention)
    return sum(len(BETWEEN) + len(part) for part in parts if part)


def _of_everywhere(sources: _Sources, project: str, room: int) -> tuple[str, int, dict[str, int]]:
    """Return the first lines of The Bond and The Phenotype that fit, their number, and counts of what is left out."""
    if not sources.everywhere.strip():
        return "", 0, {"everywhere": 0, "same": 0, "forgotten": 0}
    # Imported here, because a session start without a global workspace does not need it.
    from state.document.document import parse
    from state.document.sections import SectionName

    document = parse(sources.everywhere[:_LONGEST_EVERYWHERE])
    found = [document.section(name) for name in (SectionName.BOND, SectionName.PHENOTYPE)]
    parts = parse(sources.redacted.memory("".join(part.raw for part in found if part is not None))).parts
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
    """Return the newest notes, newest first, as many as may be shown, and the number of all."""
    count = 0

    def numbered() -> Iterator[tuple[datetime, int, Note]]:
        nonlocal count
        for count, note in enumerate(notes, 1):
            yield note.at, count, note

    # Of notes in the same second, the one appended later is newer.
    found = heapq.nlargest(_NOTES_LOOKED_AT, numbered(), key=lambda one: one[:2])
    return [note for _, _, note in found], count


def _of_notes(sources: _Sources, room: int, beside: int) -> tuple[tuple[str, ...], int, int]:
    """Return the newest notes that fit, and how many are hidden as forgotten, or excluded only by the host's limit.

    `beside` is the room for notes without that limit.
    """
    rows: list[str] = []
    withheld = kept_out = used = 0
    each = max(NOTE_CHARACTERS, room // max(1, len(sources.newest)) - _AROUND_NOTE)
    for note in sources.newest:
        text = sources.shown_of(sources.redacted.note(note.text))
        if not text:
            withheld += 1
            continue
        row = _row(note._replace(text=text), each)
        used += len(row) + 1
        if used > beside:
            break
        if kept_out or used > room:
            kept_out += 1
            continue
        rows.append(row)
    return tuple(rows), withheld, kept_out


class _Cut(NamedTuple):
    """What of a MEMORY.md fits; `dropped` are the lines left out by their importance."""

    text: str
    is_cut: bool = False
    dropped: tuple[int, ...] = ()


def _cut(memory: str, room: int, leaving: Sequence[int]) -> _Cut:
    """Return what fits with the truncation mark: without the lines that are the first to leave, then cut at a row."""
    if len(memory.rstrip("\n")) < max(1, room):
        return _Cut(memory)
    left = room - len(TRUNCATED) - 3  # the blank row and the last line end
    if left <= 0:
        return _Cut("", is_cut=True)
    shorter, dropped = _without_least(memory, left, leaving)
    if len(shorter) > left:
        at = shorter.rfind("\n", 0, left + 1)
        shorter = shorter[: at if at > 0 else left]
    return _Cut(shorter.rstrip("\n"), is_cut=True, dropped=dropped)


def _without_least(memory: str, room: int, leaving: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """Return MEMORY.md without the first of these lines, as many as have to leave; and their digests."""
    order = {digest: place for place, digest in enumerate(leaving)}
    found = sorted((order[digest], at, raw) for at, raw, digest in _lines_of(memory) if digest in order)
    gone, size = dict[int, str](), len(memory.rstrip("\n"))
    for _, at, raw in found:
        if size <= room:
            break
        gone[at] = raw
        size -= len(raw)
    if not gone:
        return memory, ()
    rows = memory.split("\n")
    for at, raw in sorted(gone.items(), reverse=True):
        del rows[at : at + raw.count("\n") + (not raw.endswith("\n"))]
    dropped = tuple(leaving[place] for place, at, _ in found if at in gone)
    return as_given("\n".join(rows)), dropped


def _lines_of(memory: str) -> Iterator[tuple[int, str, int]]:
    """Yield the lines of the sections: the number of their first row, from 0, their characters, and their digest."""
    from state.document.document import parse  # imported late: most session starts have room for everything

    at = 0
    for part in parse(memory).parts:
        at += part.heading.count("\n")
        for block in part.blocks:
            if part.name is not None and block.content:
                yield at, block.raw, line_digest(block.key)
            at += block.raw.count("\n")


def _marked(kept: str, room: int) -> str:
    """Add the truncation mark below what was kept, if there is room."""
    if not kept:
        return f"{TRUNCATED}\n" if len(TRUNCATED) < room else ""
    return f"{kept}\n\n{TRUNCATED}\n"


def _rows(text: str) -> int:
    """Count the rows that are neither blank nor headings."""
    return sum(map(_counts, text.split("\n")))


def _counts(row: str) -> bool:
    return bool(row.strip()) and not row.startswith("#")


def _row(note: Note, most: int) -> str:
    # A note is data: on one row it cannot forge a heading or a second note, and an order in it is quoted.
    auto = "[AUTO] " if note.auto else ""
    stamp = note.at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"- [{stamp}] (importance: {note.importance:g}) {auto}{_shown(note.text, most)}"


def _shown(text: str, most: int) -> str:
    """Return a pending note in the form that a dream would give it; if it is longer, its beginning with "…"."""
    from state.text.line import as_line  # a session start without pending notes does not need it

    return as_line(text, most)
