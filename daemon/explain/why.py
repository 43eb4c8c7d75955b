"""Why: where a line of MEMORY.md comes from: the dream and the operation that wrote it, and its evidence."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.explain.crystal import Evidence, evidence_of
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from state.document.document import parse
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import HUMAN, Dream
from state.errors import NotFoundError
from state.stores.history.lineage import LineLife
from state.text.words import normalise

MAX_LINES = 5


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The version that wrote a line: its dream, why that ran, and the operation with its cited ids and prompts."""

    version: int
    at: datetime
    cause: str = ""
    reason: str = ""
    dream: str = ""
    model: str = ""
    prompts: tuple[str, ...] = ()
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """How a line left MEMORY.md: its successor's text, or the crystal and the pointer that lead to it."""

    version: int
    fate: str
    successor: str
    crystal: str
    keywords: str


@dataclass(frozen=True, slots=True)
class LineHistory:
    """A line from its writing to its removal. `id` is empty for a line written by hand since the last dream."""

    id: str
    section: str
    text: str
    trust: str = "owner"
    writing: WrittenBy | None = None
    evidence: tuple[Evidence, ...] = ()
    replaced: tuple[LineLife, ...] = ()
    ending: Removal | None = None


def why(store: Store, what: str) -> tuple[LineHistory, ...]:
    """Return the histories of the lines with this id (L12) or this text in them, present ones first; at most five.

    Raise NotFoundError if there never was such a line.
    """
    life = store.lineage.life(what.strip().upper())
    lives = [life] if life else store.lineage.lives(what, MAX_LINES) if normalise(what) else []
    histories = [_history(store, life) for life in lives]
    if all(history.ending is not None for history in histories):
        histories = [*_by_hand(store, what), *histories]
    if not histories:
        raise NotFoundError(f"no line of MEMORY.md has or had {what!r} in it", "give other words of it, or its id")
    return tuple(histories[:MAX_LINES])


def _history(store: Store, life: LineLife) -> LineHistory:
    before, shown = store.lineage.ancestors(life.id), store.shown
    return LineHistory(
        id=life.id,
        section=life.section.value,
        text=shown(life.text),
        trust=life.trust.value,
        writing=_written_by(store, life),
        evidence=evidence_of(store, life.evidence),
        replaced=tuple(replace(one, text=shown(one.text)) for one in before),
        ending=_removal(store, life),
    )


def _by_hand(store: Store, what: str) -> Iterable[LineHistory]:
    """Yield the lines of the file that no dream has read yet."""
    text, _ = read_document(store.workspace, store.connection)
    known, wanted = {normalise(line.text) for line in store.lineage.current_lines()}, normalise(what)
    for part in parse(text).parts:
        for block in part.lines:
            if wanted and wanted in block.key and block.key not in known:
                yield LineHistory("", part.name.value if part.name else "", store.shown(block.text))


def _written_by(store: Store, life: LineLife) -> WrittenBy:
    try:
        record = store.memory.version(life.born_in)
    except NotFoundError:  # the lines of a version outlive its record
        return WrittenBy(life.born_in, life.born_at, HUMAN if life.id in store.lineage.handwritten() else "")
    return WrittenBy(
        version=record.number,
        at=record.at,
        cause=record.cause,
        reason=record.reason,
        dream=record.id,
        model=record.usage.model or record.author,
        prompts=record.usage.prompts,
        operation=_operation(record, life),
    )


def _operation(record: Dream, life: LineLife) -> str:
    for one in record.operations:
        if one.section is life.section and normalise(one.text) == normalise(life.text):
            on = f" of {', '.join(one.lines)}" if one.lines else ""
            return f"{one.action.value}{on}" + (f", citing {', '.join(one.cites)}" if one.cites else "")
    if life.section is SectionName.POINTERS and record.cause == "dream":
        return "pointer to a line that left"
    return "restore" if record.cause == "restore" else "by hand"


def _removal(store: Store, life: LineLife) -> Removal | None:
    if life.died_in is None:
        return None
    lineage = store.lineage
    successor = lineage.life(life.successor) if life.successor else None
    pointers = [*lineage.pointers(current=True), *lineage.pointers(current=False)]
    keywords = next((one.keywords for one in pointers if life.id == one.line or life.crystal == one.crystal), "")
    return Removal(
        version=life.died_in,
        fate=life.fate,
        successor=store.shown(successor.text) if successor else "",
        crystal=life.crystal,
        keywords=keywords if life.fate == Why.EVICTED else "",
    )
