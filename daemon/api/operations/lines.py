"""Operations on the lines of MEMORY.md one by one: as they stand with what is known of each, and changes of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, FieldsError, operation
from daemon.api.operations.request import Request
from daemon.dream.lines.change import LineWish, change
from daemon.dream.lines.standing import SHOWN_CHARACTERS, StandingLines, shown, standing_lines
from daemon.workspace.stores import utc_now
from graphs.review import LineAction
from state.document.document import SectionName
from state.text.line import LINE_CHARACTERS

MOST_CHANGES = 100
_WRITES = (LineAction.EDIT, LineAction.ADD)


@operation("lines", reads=True)
def lines(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg("At most so many headings and lines", ge=1, le=1_000)] = 1_000,
    start: Annotated[int, Arg("Behind so many; 'more' says how many follow", ge=0, le=10**9)] = 0,
) -> StandingLines:
    """Return MEMORY.md as the file has it now, line by line: age, author, trust, what it rests on, what is open."""
    with access.read() as store:
        return standing_lines(store, utc_now(), start, limit)


class ChangeOfLine(Request):
    """One change, of the line with this id, or with this text and section as long as it has no id."""

    action: LineAction = Field(description="'wrong' is an edit, or without a text a deletion, of what was never true")
    line: str = Field(default="", pattern=r"^(?:L\d{1,9})?$", description="Its id")
    section: SectionName | None = Field(default=None, description="Where it stands, or where the new line is to")
    expected: str = Field(
        default="", max_length=SHOWN_CHARACTERS, description="The line's text as you saw it; else nothing changes"
    )
    text: str = Field(default="", max_length=LINE_CHARACTERS, description="What it is to say, in one line")
    again: bool = Field(default=False, description="Also if you deleted that text before")


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """What a change wrote: the line's new id and text; both are empty where it wrote none, or gave way to a save."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class LinesChanged:
    """The version that the changes made, and what each of them wrote, in their order.

    `merged`: the file was saved in the same moment, and holds both; where both changed a line, the file's stands.
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
    """Edit, delete, add, pin and unpin lines of MEMORY.md, or say that they are wrong, as its owner; one version."""
    _require_whole(changes)
    with access.exclusive() as store:
        done = change(store, [LineWish(**one.given) for one in changes], digest)
        ids = {one.text: one.id for one in done.dream.came}
        written = tuple(
            ChangedLine(ids[text], shown(store, text)[0]) if text in ids else ChangedLine("", "")
            for text in (done.texts.get(place, "") for place in range(len(changes)))
        )
    access.mark_changed()
    return LinesChanged(done.dream.number, written, done.dream.joined)


def _require_whole(changes: tuple[ChangeOfLine, ...]) -> None:
    """Raise FieldsError unless each change says what it needs."""
    fields = {}
    for place, one in enumerate(changes):
        for name, problem in (*_naming_problems(one), *_text_problems(one)):
            fields[f"changes.{place}.{name}"] = problem
    if fields:
        raise FieldsError(fields)


def _naming_problems(one: ChangeOfLine) -> Iterator[tuple[str, str]]:
    if one.action is LineAction.ADD:
        if one.line or one.expected:
            yield "line", "a line that is added has no id, and replaces no text"
        if one.section is None:
            yield "section", "a line that is added needs a section"
    elif not one.expected.strip():
        yield "expected", "say what the line says"
    elif not one.line and one.section is None:
        yield "line", "name the line by its id, or by its section and its text"


def _text_problems(one: ChangeOfLine) -> Iterator[tuple[str, str]]:
    if one.action in _WRITES:
        if not one.text.strip():
            yield "text", "say what the line is to say; to remove it, delete it"
    elif one.text and (one.action is not LineAction.WRONG or not one.text.strip()):
        yield "text", f"{one.action.value} takes no such text"
    if len(one.text.splitlines()) > 1:
        yield "text", "write it in one line"
