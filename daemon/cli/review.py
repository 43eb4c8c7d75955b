"""Review: shows the waiting changes, and decides on them by number, or in an editor as in git rebase.

Also says that a line that was written is wrong.
"""

import argparse
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.api.operations.memory import ChangeOfLine, change_lines, lines
from daemon.api.operations.review import ChangesToReview, ChangeToReview, changes
from daemon.api.operations.review import decide as decide_changes
from daemon.api.shapes import on_clock
from daemon.api.text import grounds, heading
from daemon.cli.parsing import WORKSPACE, arg, caller_of, command, workspace_of
from daemon.cli.perform import show
from daemon.cli.terminal import say
from daemon.dream.standing import Line
from graphs.review import LineAction
from state.document.sections import SectionName
from state.errors import DreamdError, NotFoundError, NothingToDoError, RejectedError, UsageError
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller

_PAGE = 1_000  # headings and lines, as the operation lists them
_DECISIONS = {
    "approve": "let them apply",
    "decline": "refuse them: they are not asked for again",
    "accept": "changes that applied are right",
    "undo": "changes that applied are wrong: the old text comes back",
    "reopen": "what was declined waits again, what was accepted can be undone again",
}
_LONGEST_NUMBER = 7
_KEEP = "skip"
# The request's field for each word before a number; `edit` also approves.
_FIELDS = {"approve": "approve", "edit": "approve", "decline": "decline", "accept": "accept", "undo": "undo"}
_TODO = f"""\
# Changes of MEMORY.md to decide on. Change the word before a number:
#   {_KEEP}     leave it as it is
#   approve  let it apply; the text beside it is what will be written, so you may edit it ('edit' is the same)
#   decline  refuse it, for good
#   accept   it has applied, and is right
#   undo     it has applied, and is wrong: the old text comes back
# Lines that begin with # are not read. A line that is missing counts as {_KEEP}. An empty text changes nothing.
"""


@command(
    arg("names", nargs="*", metavar="N", help="numbers of changes"),
    (
        *(
            arg(
                *(("--decline", "--reject") if verdict == "decline" else (f"--{verdict}",)),
                dest="verdict", action="store_const", const=verdict, default="", help=about,
            )
            for verdict, about in _DECISIONS.items()
        ),
        arg("--edit", action="store_true", help="decide in $VISUAL or $EDITOR, line by line"),
        arg("--from", type=Path, metavar="FILE", dest="file", help="decide by a text that --edit made"),
    ),
    arg("--section", default="", help="every change in this section"),
    arg("--all", action="store_true", help="everything that waits, or all that applied"),
    *WORKSPACE,
)  # fmt: skip
def review(arguments: argparse.Namespace) -> int:
    """Show the changes of lines that wait for you, and decide on them.

    Exit status 3: nothing waits.
    """
    caller = caller_of(arguments, "review")

    def decide(decisions: Mapping[str, Any]) -> int:
        done = caller.ask(decide_changes, **decisions)
        show(decide_changes.text, done, caller.config.zone, as_json=arguments.json)
        if not (done.approved or done.undone or done.declined or done.accepted or done.reopened):
            raise RejectedError("none of it could be done", "MEMORY.md stands as it was")
        return 0

    if arguments.verdict == "reopen":
        if not arguments.names or not all(_is_number(name) and int(name) for name in arguments.names):
            raise UsageError("name the changes to reopen by their numbers", "'dreamd review --reopen 3'")
        return decide({"reopen": tuple(map(int, arguments.names))})
    waiting = _chosen(caller.ask(changes).changes, arguments)
    if arguments.file:
        return decide(read_todo(_text_of(arguments.file), waiting))
    if arguments.edit:
        return _edited(on_clock(waiting, caller.config.zone), workspace_of(arguments), decide)
    if arguments.verdict:
        return decide({arguments.verdict: _meant(waiting, arguments)})
    show(changes.text, ChangesToReview(tuple(waiting)), caller.config.zone, as_json=arguments.json)
    return 0


def _chosen(waiting: Sequence[ChangeToReview], arguments: argparse.Namespace) -> Sequence[ChangeToReview]:
    if arguments.section:
        wanted = arguments.section.casefold()
        waiting = [one for one in waiting if one.section.value.casefold() == wanted]
        if not waiting:
            raise NothingToDoError(f"no change waits in {arguments.section!r:.60}", "'dreamd review' shows what does")
    if not arguments.names:
        if not waiting:
            raise NothingToDoError("nothing waits for you", "dream.approve and dream.mode say what does")
        return waiting
    numbered = {one.number: one for one in waiting}
    for name in arguments.names:
        if not _is_number(name) or int(name) not in numbered:
            raise NotFoundError(f"no change {name!r:.40} waits", "'dreamd review' lists them")
    return [numbered[number] for number in dict.fromkeys(map(int, arguments.names))]


def _is_number(name: str) -> bool:
    """Return whether this can be the number of a change."""
    return name.isascii() and name.isdecimal() and len(name) <= _LONGEST_NUMBER


def _meant(waiting: Sequence[ChangeToReview], arguments: argparse.Namespace) -> tuple[int, ...]:
    """Return the changes to decide on: the named ones, else all of the kind, which for several needs an option."""
    if arguments.names:
        return tuple(one.number for one in waiting)
    verdict, applied = arguments.verdict, arguments.verdict in {"accept", "undo"}
    numbers = tuple(one.number for one in waiting if (one.decision == "applied") is applied)
    if not numbers:
        raise NothingToDoError(f"there is nothing to {verdict}", "'dreamd review' shows what waits")
    if len(numbers) > 1 and not (arguments.all or arguments.section):
        listed = ", ".join(map(str, numbers[:10]))
        raise UsageError(f"{len(numbers)} wait ({listed})", "name some, or a --section, or --all")
    return numbers


# ------------------------------------------------------------------- a line that was never true


@command(
    arg("line", nargs="+", metavar="LINE", help="its id, as 'dreamd why' shows it, or a text that it alone has"),
    arg("--right", metavar="TEXT", default="", help="what is true, in its place"),
    *WORKSPACE,
)
def wrong(arguments: argparse.Namespace) -> int:
    """Say that a line of MEMORY.md was never true. It goes, or says what --right says, and no dream brings it back.

    What it rests on is not given as current any more. 'dreamd restore' undoes it.
    """
    caller, said = caller_of(arguments, "wrong"), " ".join(" ".join(arguments.line).split())
    name, line = _line_meant(_standing(caller), said)
    section = SectionName(name) if name else None
    meant = ChangeOfLine(
        action=LineAction.WRONG, line=line.id, section=section, expected=line.text, text=arguments.right
    )
    done = caller.ask(change_lines, (meant,))
    rows = [f"wrong: {line.text}", f"right: {done.lines[0].text}" if done.lines[0].text else "it is gone"]
    show(lambda _: "\n".join((*rows, f"version {done.version}")), done, as_json=arguments.json)
    return 0


def _standing(caller: "Caller") -> list[tuple[str, Line]]:
    """Return every line of MEMORY.md with the name of its section."""
    every, start, more = list[tuple[str, Line]](), 0, 1
    while more:
        page = caller.ask(lines, start=start)
        every += [(section.name, line) for section in page.sections for line in section.lines]
        start, more = start + _PAGE, page.more
    return every


def _line_meant(every: Sequence[tuple[str, Line]], said: str) -> tuple[str, Line]:
    """Return the line with this id, this text, or this text in it. Raise NotFoundError or UsageError."""
    wanted = said.casefold()
    texts = [(one, _one_row(one[1].text).casefold()) for one in every if one[0] or one[1].id]
    found = (
        [one for one in every if one[1].id and one[1].id.casefold() == wanted]
        or [one for one, text in texts if text == wanted]
        or [one for one, text in texts if wanted in text]
    )
    if not found or not wanted:
        raise NotFoundError(f"no line of MEMORY.md has {said!r:.80}", "'dreamd why TEXT' shows lines with their ids")
    if len(found) > 1:
        ids = ", ".join(one.id or f"{one.text:.40}…" for _, one in found[:10])
        raise UsageError(f"{len(found)} lines have {said!r:.80}: {ids}", "give an id, or more of the text")
    return found[0]


# ------------------------------------------------------------------- in an editor


def _edited(
    waiting: Sequence[ChangeToReview], workspace: Workspace, decide: Callable[[Mapping[str, Any]], int]
) -> int:
    """Decide by a text that the person edits; keep the text if it cannot be carried out."""
    text = _todo(waiting)
    with storage_errors(workspace.state):  # readable by this user only, in a place that a forgetting searches
        handle, name = tempfile.mkstemp(".txt", "review-", workspace.state)
        with os.fdopen(handle, "w", encoding="utf-8") as open_file:
            open_file.write(text)
    file, editor = Path(name), os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        try:
            ended = subprocess.run([*shlex.split(editor), name], check=False)  # noqa: S603 - the person's own editor
        except (OSError, ValueError) as error:
            what = f"the editor {editor!r:.80} does not start ({error})"
            raise UsageError(what, "set VISUAL or EDITOR") from error
        if ended.returncode:
            raise UsageError(f"the editor {editor!r:.80} ended with {ended.returncode}", "nothing has changed")
        status = decide(read_todo(_text_of(file), waiting))
    except DreamdError:
        if file.exists() and file.read_bytes() not in {b"", text.encode()}:
            say(f"your text is kept: mend it, then run 'dreamd review --from {shlex.quote(name)}'")
        else:
            file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)
    return status


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}", "nothing has changed") from error


def _todo(waiting: Sequence[ChangeToReview]) -> str:
    """Return the text to edit: a line for each change, with its old lines and evidence below as comments."""
    parts = [_TODO]
    for one in waiting:
        rows = [heading(one), *(f"was: {text}" for text in one.old if one.new), *grounds(one)]
        parts.append(f"{_KEEP} {one.number} {_said_by(one)}\n" + "".join(f"#    {_one_row(row)}\n" for row in rows))
    return "\n".join(parts)


def read_todo(text: str, waiting: Sequence[ChangeToReview]) -> dict[str, tuple[Any, ...]]:
    """Parse an edited text into the fields of a request.

    Raise UsageError naming an invalid line, and NothingToDoError if nothing is decided.
    """
    known, decided, texts = {str(one.number): one for one in waiting}, dict[int, str](), list[dict[str, Any]]()
    for at, row in enumerate(text.splitlines(), 1):
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        word, name, said = [*row.split(maxsplit=2), "", ""][:3]
        if word not in _FIELDS and word != _KEEP:
            raise UsageError(f"line {at}: {word!r:.40} is no decision", f"there are {', '.join((_KEEP, *_FIELDS))}")
        if not _is_number(name) or (one := known.get(str(int(name)))) is None:
            raise UsageError(f"line {at}: there is no change {name!r:.40}", "leave the numbers as they are")
        if one.number in decided:
            raise UsageError(f"line {at}: change {one.number} stands there twice", "leave one line of it")
        decided[one.number] = word
        if word != _KEEP and _one_row(said) != _said_by(one):
            if _FIELDS[word] != "approve" or not one.new or not said:
                advice = "leave it as it was" if said else "write one, or decline it"
                raise UsageError(f"line {at}: change {one.number} cannot have this text", advice)
            texts.append({"number": one.number, "text": _one_row(said)})
    if not set(decided.values()) - {_KEEP}:
        raise NothingToDoError("nothing is decided, so nothing has changed", "change the word before a number")
    fields = {
        field: tuple(n for n, word in decided.items() if _FIELDS.get(word) == field) for field in _FIELDS.values()
    }
    return {**fields, "texts": tuple(texts)}


def _said_by(change: ChangeToReview) -> str:
    """Return the change's new text, or the old one if it leaves MEMORY.md, in one row."""
    return _one_row(change.new or " / ".join(change.old))


def _one_row(text: str) -> str:
    return " ".join(text.split())
