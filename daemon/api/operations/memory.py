"""Operations on MEMORY.md: read it, list and change its lines, compare and restore versions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, FieldsError, operation
from daemon.api.operations.request import Moment, Request
from daemon.api.shapes import one_row, table
from daemon.api.words import CAUSES, cause_words, waiting_words
from daemon.dream.standing import SHOWN_CHARACTERS, StandingLines, shown, standing_lines
from daemon.journal.as_of import Fate, MemoryThen, memory_then
from daemon.journal.correct import put_right
from daemon.journal.dream import unified_diff
from daemon.journal.lines import change
from daemon.journal.mentions import Mention, Mentioned, Subject, mentions_of, shown_mention, subject_of
from daemon.journal.restore import restore
from daemon.journal.summary import done_words
from daemon.observability.printable import visible
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction, Wish
from state.document.sections import SectionName
from state.dream import Dream
from state.errors import NotFoundError, UsageError
from state.stores.history.lineage import Version
from state.stores.history.memory import Memory
from state.text.line import LINE_CHARACTERS
from state.text.words import counted

MOST_CHANGES = 100
MOST_PLACES = 1_000
MOST_WRONG = 10_000  # characters
_WRITES = (LineAction.EDIT, LineAction.ADD)


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """The current MEMORY.md, secrets redacted. `version` is the last committed one; 0 before the first."""

    text: str
    version: int
    read_at: datetime


@operation("memory_state", reads=True)
def memory_state(access: WorkspaceAccess) -> MemoryDocument:
    """Return MEMORY.md as it stands, and its version."""
    with access.read() as store:
        # A model may read this, and text that the owner wrote by hand is not redacted yet.
        text = store.shown_memory(read_document(store.workspace, store.connection)[0])
        return MemoryDocument(text, store.lineage.last_version(), utc_now())


@operation("lines", reads=True)
def lines(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg("At most so many headings and lines", ge=1, le=1_000)] = 1_000,
    start: Annotated[int, Arg("Behind so many; 'more' says how many follow", ge=0, le=10**9)] = 0,
    section: Annotated[SectionName | None, Arg("Only of this section")] = None,
) -> StandingLines:
    """Return MEMORY.md as the file has it now, line by line: age, author, trust, what it rests on, what is open."""
    with access.read() as store:
        return standing_lines(store, utc_now(), start, limit, section)


_SIGNS = {Fate.STANDS: " ", Fate.GONE: "-", Fate.LATER: "+"}


def then_text(reply: MemoryThen) -> str:
    """Show the file of that moment, with signs for what has gone since and what came later."""
    name = f"version {reply.version}, of {reply.at:%Y-%m-%d %H:%M %Z}" if reply.at else "before the first dream"
    rows = [f"MEMORY.md, {name}; since then '-' has gone and '+' has come"]
    for section in (one for one in reply.sections if one.lines):
        rows += [visible(section.heading)] if section.heading else []
        rows += [f"{_SIGNS[one.fate]} {row}" for one in section.lines for row in visible(one.text).split("\n")]
    return "\n".join([*rows, *([f"and {reply.more} more"] if reply.more else [])])


@operation("memory_as_of", reads=True, text=then_text)
def memory_as_of(
    access: WorkspaceAccess,
    as_of: Annotated[Moment, Arg("A day or a time")],
    limit: Annotated[int, Arg("At most so many headings and lines", ge=1, le=1_000)] = 1_000,
    start: Annotated[int, Arg("Behind so many; 'more' says how many follow", ge=0, le=10**9)] = 0,
) -> MemoryThen:
    """Return MEMORY.md as it was then, line by line: what has gone since, and what came later."""
    with access.read() as store:
        return memory_then(store, as_of, start, limit)


class ChangeOfLine(Request):
    """A change of the line with this id, or with this section and text while it has no id yet."""

    action: LineAction
    line: str = Field(default="", pattern=r"^(?:L\d{1,9})?$", description="Its id")
    section: SectionName | None = Field(default=None, description="Where it stands, or where the new line is to")
    expected: str = Field(
        default="", max_length=SHOWN_CHARACTERS, description="The line's text as you saw it; else nothing changes"
    )
    text: str = Field(default="", max_length=LINE_CHARACTERS, description="What it is to say, in one line")
    again: bool = Field(default=False, description="Also if you deleted that text before")


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A written line's new id and text; both empty if the change wrote no line, or a concurrent save overrode it."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class LinesChanged:
    """The version that the changes created, and the line each one wrote, in order.

    `merged`: the file was saved at the same moment and now has both; where both changed a line, the save wins.
    """

    version: int
    lines: tuple[ChangedLine, ...]
    merged: bool


@operation("change_lines", long=True)
def change_lines(
    access: WorkspaceAccess,
    changes: Annotated[tuple[ChangeOfLine, ...], Arg(min_length=1, max_length=MOST_CHANGES)],
    digest: Annotated[
        str, Arg("The file's digest as you saw it; empty: of any file", pattern="^(?:[0-9a-f]{64})?$")
    ] = "",
) -> LinesChanged:
    """Edit, delete, add, pin and unpin lines of MEMORY.md, as its owner; one version."""
    wrong = {f"changes.{at}.{name}": what for at, one in enumerate(changes) for name, what in _problems(one)}
    if wrong:
        raise FieldsError(wrong)
    with access.exclusive() as store:
        dream, texts = change(store, [Wish(**one.given) for one in changes], digest)
        ids = {one.text: one.id for one in dream.came}
        written = tuple(
            ChangedLine(ids[text], shown(store, text)[0]) if text in ids else ChangedLine("", "")
            for text in (texts.get(place, "") for place in range(len(changes)))
        )
    access.mark_changed()
    return LinesChanged(dream.number, written, dream.joined)


def _problems(one: ChangeOfLine) -> Iterator[tuple[str, str]]:
    """Yield the fields of a change that are missing or contradict each other, with what is wrong."""
    if one.action is LineAction.ADD:
        if one.line or one.expected:
            yield "line", "a line that is added has no id, and replaces no text"
        if one.section is None:
            yield "section", "a line that is added needs a section"
    elif not one.expected.strip():
        yield "expected", "say what the line says"
    elif not one.line and one.section is None:
        yield "line", "name the line by its id, or by its section and its text"
    if one.action in _WRITES:
        if not one.text.strip():
            yield "text", "say what the line is to say; to remove it, delete it"
    elif one.text:
        yield "text", f"{one.action.value} takes no such text"
    if len(one.text.splitlines()) > 1:
        yield "text", "write it in one line"


@dataclass(frozen=True, slots=True)
class PutRight:
    """What is `wrong` and what is `right` (empty: it is not true), and where it says so; put right in `version`.

    A dry run has every place, also those that only may say so, and no version.
    """

    wrong: str
    right: str
    mentions: tuple[Mention, ...]
    version: int | None


def put_right_text(done: PutRight) -> str:
    """Show what is wrong, what is right, and each place with what stays of it."""
    rows = [f"wrong: {one_row(done.wrong)}", f"right: {one_row(done.right)}" if done.right else "it is not true"]
    for one in done.mentions:
        may = "" if one.certain else " (may say so)"
        rows.append(f"  {one.kind} {one.id}{may}: {one_row(one.before + one.said + one.after)}")
        rows += [f"    it still says: {one_row(one.rest)}"] if one.rest and one.certain else []
    if done.version is None:
        return "\n".join(
            (*rows, "nothing was changed; without --dry-run, all are put right but those that may say so")
        )
    return "\n".join((*rows, f"put right in {counted(len(done.mentions), 'place')}, as version {done.version}"))


@operation("correct", long=True, text=put_right_text)
def correct(
    access: WorkspaceAccess,
    text: Annotated[
        str,
        Arg(
            "What is wrong: a text, or the id of a line (L12; L12.2: its second sentence) or a crystal",
            min_length=1,
            max_length=MOST_WRONG,
        ),
    ],
    right: Annotated[
        str, Arg("What is true in its place; empty: it is simply not true", max_length=LINE_CHARACTERS)
    ] = "",
    only: Annotated[
        tuple[str, ...],
        Arg("Ids that a dry run lists: only these change; else all that surely say so", max_length=MOST_PLACES),
    ] = (),
    dry_run: Annotated[bool, Arg("Say where it says so, and change nothing")] = False,
) -> PutRight:
    """Put right what is wrong everywhere: in lines, notes, crystals, working memory; what else they say stays."""
    if len(right.splitlines()) > 1:
        raise FieldsError({"right": "write it in one line"})
    if dry_run:
        with access.read() as store:
            subject = subject_of(store, text)
            found = mentions_of(store, subject)
            return _put_right(store, subject, right, found, None)
    with access.exclusive() as store:
        subject = subject_of(store, text)
        dream, chosen = put_right(store, subject, right.strip(), only)
        done = _put_right(store, subject, right, chosen, dream.number)
    access.mark_changed()
    return done


def _put_right(
    store: Store, subject: Subject, right: str, found: Sequence[Mentioned], version: int | None
) -> PutRight:
    wrong, right = shown(store, subject.text)[0], store.shown(right.strip())
    return PutRight(wrong, right, tuple(shown_mention(store, one) for one in found), version)


@dataclass(frozen=True, slots=True)
class Versions:
    """Committed versions, newest first."""

    versions: tuple[Version, ...]


def versions_text(reply: Versions) -> str:
    """List the versions in a table."""
    if not reply.versions:
        return "no version yet; 'dreamd dream' makes the first"
    zones = {f"{one.at:%Z}" for one in reply.versions}
    clock = "%Y-%m-%d %H:%M" if len(zones) == 1 else "%Y-%m-%d %H:%M %Z"
    rows = [(str(one.number), f"{one.at:{clock}}", *_version_cells(one)) for one in reply.versions]
    return table(f"version,when{f' ({zones.pop()})' if len(zones) == 1 else ''},notes,cost,what it did", rows)


def _version_cells(one: Version) -> tuple[str, str, str]:
    """Return over how many notes a version was made, what it cost, and what it did."""
    done = done_words(one.cause, {"added": one.added, "revised": one.revised, "evicted": one.evicted})
    if one.cause not in CAUSES:  # a dream
        return f"{one.notes or ''}", f"${one.usd:.4f}" if one.usd else "", done or "nothing changed"
    return "", "", ": ".join(filter(None, (cause_words(one.cause, one.reason), done)))


@operation("history", reads=True, text=versions_text)
def history(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg("At most so many, the newest first", ge=1, le=100_000)] = 20,
) -> Versions:
    """Return the versions of MEMORY.md, the newest first."""
    with access.read() as store:
        return Versions(tuple(store.lineage.versions(limit)))


@dataclass(frozen=True, slots=True)
class Difference:
    """A unified diff, empty without differences; `old` and `new` name the compared texts."""

    old: str
    new: str
    diff: str


def difference_text(reply: Difference) -> str:
    """Return the diff, or that there is none."""
    return visible(reply.diff) or f"no difference between {reply.old} and {reply.new}"


@operation("diff", reads=True, text=difference_text)
def diff(
    access: WorkspaceAccess,
    versions: Annotated[
        tuple[Annotated[int, Field(ge=0, le=10**9)], ...],
        Arg("One version (with the one before), or two; 0: what stood before dreamd", place=True, max_length=2),
    ] = (),
    file: Annotated[bool, Arg("Between the last version and the file as it is")] = False,
) -> Difference:
    """Return what changed between two versions of MEMORY.md, as a unified diff: the last two if none is named."""
    if versions and not versions[-1]:
        raise FieldsError({"versions": "it is compared with version 1 at the earliest"})
    if file and versions:
        raise UsageError("the file is compared with the last version", "name no version beside it")
    with access.read() as store:
        last = store.lineage.last_version()
        if not last:
            raise NotFoundError("there is no version yet", "'dreamd dream' makes the first")
        if file:
            content = store.memory.disk.read_optional(store.workspace.document) or b""
            before = _name_and_text(store.memory, store.lineage.standing()[0])
            after = ("as it is", content.decode(errors="replace"))
        else:
            number = versions[-1] if versions else last
            after = _name_and_text(store.memory, number)
            before = _name_and_text(store.memory, versions[0] if len(versions) > 1 else number - 1)
    return Difference(before[0], after[0], unified_diff(before[1], after[1], before[0], after[0]))


def _name_and_text(memory: Memory, number: int) -> tuple[str, str]:
    """Return the name and text of a version; 0: the file before dreamd."""
    if number == 0:
        return "before dreamd", memory.text(0)
    return f"version {number}", memory.text(number)


@dataclass(frozen=True, slots=True)
class RestoredVersion:
    """The dream that restored a version, and how many notes are `pending` after it, counted up to a thousand."""

    dream: Dream
    pending: int


def restored_text(done: RestoredVersion) -> str:
    """Say which version it is now, and show the diff."""
    dream = done.dream
    changed = unified_diff(dream.before, dream.after, "as it was", f"version {dream.number}")
    head = f"restored, as version {dream.number}; {waiting_words(done.pending)}"
    return "\n".join(filter(None, [head, visible(changed)]))


@operation("restore", long=True, text=restored_text)
def restore_version(
    access: WorkspaceAccess,
    version: Annotated[int, Arg("Its number", ge=1, le=10**9)],
) -> RestoredVersion:
    """Bring back an earlier version of MEMORY.md as a new version; what was consumed since is pending again."""
    with access.exclusive() as store:
        store.memory.text(version)  # raises before any change if the version does not exist
        dream = restore(store, version)
        for problem in dream.problems:
            store.notices.add(problem)
        done = RestoredVersion(dream, store.notes.count().notes)
    access.mark_changed()
    return done
