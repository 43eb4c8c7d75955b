"""Show what waits for you, proposals of whole dreams and changes of single lines, and decide on it."""

import argparse
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.api.text import change_rows
from daemon.cli.parsing import caller_of, takes_workspace, workspace_of
from daemon.cli.terminal import out, say, show_json, show_unified
from state.errors import DreamdError, NotFoundError, NothingToDoError, RejectedError, UsageError
from state.stores.disk.syscalls import storage_errors

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller
    from daemon.api.operations.changes import ChangesDecided, ChangeToReview
    from daemon.api.operations.versions import Decided
    from state.dream import Dream
    from state.stores.disk.workspace import Workspace

_DECISIONS = ("approve", "decline", "accept", "undo")
# A number of a change has fewer digits than the beginning of a proposal's id that anybody would write.
_LONGEST_NUMBER = 7
_NOTHING = "nothing waits for you"
_FROM = "dream.approve and dream.mode say what does"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which of them, and what to do with it."""
    parser.add_argument("names", nargs="*", metavar="ID", help="numbers of changes, or the beginning of a proposal's")
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--approve", action="store_true", help="let them apply")
    decision.add_argument(
        "--decline", "--reject", action="store_true", help="refuse them; of a proposal the notes wait"
    )
    decision.add_argument("--accept", action="store_true", help="changes that applied are right")
    decision.add_argument(
        "--undo", action="store_true", help="changes that applied are wrong: the old text comes back"
    )
    decision.add_argument(
        "--reopen", action="store_true", help="what was declined waits again, what was accepted can be undone again"
    )
    decision.add_argument("--edit", action="store_true", help="decide in $VISUAL or $EDITOR, line by line")
    decision.add_argument("--from", type=Path, metavar="FILE", dest="file", help="decide by a text that --edit made")
    parser.add_argument("--section", default="", help="every change in this section")
    parser.add_argument("--all", action="store_true", help="everything that waits, or all that applied")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show or decide; 3 when nothing waits."""
    caller = caller_of(arguments, "review")
    if arguments.reopen:
        return _reopen(caller, arguments)
    waiting = _chosen(_waiting(caller), arguments)
    if arguments.edit or arguments.file:
        if arguments.edit and not waiting.changes:
            raise NothingToDoError("no change of a line waits for you", _FROM)
        return _by_text(caller, waiting, arguments)
    verdict = next((one for one in _DECISIONS if getattr(arguments, one)), "")
    if not verdict:
        _show(waiting, as_json=arguments.json)
        return 0
    return _decide(caller, verdict, _meant(waiting, verdict, arguments), as_json=arguments.json)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits: dreams as a whole, and changes of single lines."""

    proposals: "tuple[Dream, ...]"
    changes: "tuple[ChangeToReview, ...]"


def _waiting(caller: "Caller") -> Waiting:
    from daemon.api.operations.changes import changes
    from daemon.api.operations.versions import proposals

    return Waiting(caller.ask(proposals).dreams, caller.ask(changes).changes)


def _chosen(waiting: Waiting, arguments: argparse.Namespace) -> Waiting:
    """Return those that are named, or stand in the section; else all. Raise NothingToDoError and NotFoundError."""
    if arguments.section:
        sections = {one.section.value.casefold() for one in waiting.changes}
        wanted = arguments.section.casefold()
        if wanted not in sections:
            raise NothingToDoError(f"no change waits in {arguments.section!r:.60}", "'dreamd review' shows what does")
        waiting = Waiting((), tuple(one for one in waiting.changes if one.section.value.casefold() == wanted))
    if not arguments.names:
        if not waiting.proposals and not waiting.changes:
            raise NothingToDoError(_NOTHING, _FROM)
        return waiting
    numbers = {name: int(name) for name in arguments.names if _is_number(name)}
    known = {one.number for one in waiting.changes}
    dreams = []
    for name in arguments.names:
        if numbers.get(name) in known:
            continue
        found = [one for one in waiting.proposals if one.id.startswith(name)]
        if len(found) != 1:
            raise NotFoundError(f"no change and no proposal {name!r:.40} waits", "'dreamd review' lists them")
        dreams += found
    named = set(numbers.values())
    return Waiting(tuple(dict.fromkeys(dreams)), tuple(one for one in waiting.changes if one.number in named))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= _LONGEST_NUMBER


def _meant(waiting: Waiting, verdict: str, arguments: argparse.Namespace) -> Waiting:
    """Return those that the decision is for: what was named; else all of its kind, if that is said or clear."""
    if arguments.names:
        return waiting
    applied = verdict in {"accept", "undo"}
    changes = tuple(one for one in waiting.changes if (one.decision == "applied") is applied)
    proposals = () if applied else waiting.proposals
    if not proposals and not changes:
        raise NothingToDoError(f"there is nothing to {verdict}", "'dreamd review' shows what waits")
    if len(proposals) + len(changes) > 1 and not (arguments.all or arguments.section):
        names = [one.id for one in proposals] + [str(one.number) for one in changes]
        raise UsageError(f"{len(names)} wait ({', '.join(names[:10])})", "name some, or a --section, or --all")
    return Waiting(proposals, changes)


def _decide(caller: "Caller", verdict: str, meant: Waiting, *, as_json: bool) -> int:
    from daemon.api.operations.versions import decide

    if meant.proposals and verdict not in {"approve", "decline"}:
        raise UsageError(f"a proposal cannot be {verdict!r}", "approve or decline it")
    proposals = [
        caller.ask(decide, dream=one.id, verdict="approve" if verdict == "approve" else "decline")
        for one in meant.proposals
    ]
    done = None
    if meant.changes:
        numbers = tuple(one.number for one in meant.changes)
        done = _ask(caller, {verdict: numbers})
    return _told(proposals, done, as_json=as_json)


def _reopen(caller: "Caller", arguments: argparse.Namespace) -> int:
    """Take decisions back, of changes by their numbers: no list shows them any more."""
    if not arguments.names or not all(_is_number(name) and int(name) for name in arguments.names):
        raise UsageError("name the changes to reopen by their numbers", "'dreamd review --reopen 3'")
    return _told([], _ask(caller, {"reopen": tuple(map(int, arguments.names))}), as_json=arguments.json)


def _ask(caller: "Caller", decisions: "Mapping[str, Any]") -> "ChangesDecided":
    from daemon.api.operations.changes import decide

    return caller.ask(decide, **decisions)


def _by_text(caller: "Caller", waiting: Waiting, arguments: argparse.Namespace) -> int:
    """Decide by an edited text. One that cannot be read, or not be carried out, changes nothing and is kept."""
    from daemon.cli.review_todo import written

    if arguments.file:
        return _carried_out(caller, waiting, _text_of(arguments.file), as_json=arguments.json)
    text = written(waiting.changes)
    file = _new_file(workspace_of(arguments), text)
    try:
        _edit(file)
        status = _carried_out(caller, waiting, _text_of(file), as_json=arguments.json)
    except DreamdError:
        if file.exists() and file.read_bytes() not in {b"", text.encode()}:
            say(f"your text is kept: mend it, then run 'dreamd review --from {shlex.quote(str(file))}'")
        else:
            file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)
    return status


def _new_file(workspace: "Workspace", text: str) -> Path:
    """Make a new file with this text for this user alone, where a forgetting finds it."""
    with storage_errors(workspace.state):
        handle, name = tempfile.mkstemp(".txt", "review-", workspace.state)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    return Path(name)


def _carried_out(caller: "Caller", waiting: Waiting, text: str, *, as_json: bool) -> int:
    from daemon.cli.review_todo import read

    todo = read(text, waiting.changes)
    if todo.is_empty:
        raise NothingToDoError("nothing is decided, so nothing has changed", "change the word before a number")
    return _told([], _ask(caller, todo.decisions()), as_json=as_json)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}", "nothing has changed") from error


def _edit(file: Path) -> None:
    """Open the file in the person's editor. Raise UsageError when there is none or it fails."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(command)
        ended = subprocess.run([*words, str(file)], check=False)  # noqa: S603 - the person's own editor
    except (OSError, ValueError) as error:
        raise UsageError(f"the editor {command!r:.80} does not start ({error})", "set VISUAL or EDITOR") from error
    if ended.returncode:
        raise UsageError(f"the editor {command!r:.80} ended with {ended.returncode}", "nothing has changed")


def _told(proposals: "Sequence[Decided]", done: "ChangesDecided | None", *, as_json: bool) -> int:
    """Tell what was decided. Raise RejectedError when nothing could be."""
    if as_json:
        show_json({"proposals": list(proposals), "changes": done})
    for one in () if as_json else proposals:
        committed = f"committed as version {one.version}" if one.version else "declined; its notes are pending"
        out(f"proposal {one.dream} is {committed}")
    if done is None:
        return 0
    for word, numbers in (("approved", done.approved), ("undone", done.undone)):
        if numbers and not as_json:
            out(f"{_named(numbers)} {word}: version {done.version}")
    for word, numbers in (("declined", done.declined), ("accepted", done.accepted), ("open again", done.reopened)):
        if numbers and not as_json:
            out(f"{_named(numbers)} {word}")
    problems = [f"{_named(done.outdated)} no longer what its lines are, so dropped"] if done.outdated else []
    problems += [
        f"change {one.number} is refused by {one.refusal.guard}: {one.refusal.figures}" for one in done.refused
    ]
    for problem in problems:
        say(problem)
    if problems and not (done.approved or done.undone or done.declined or done.accepted or done.reopened):
        raise RejectedError("none of it could be done", "MEMORY.md stands as it was")
    return 0


def _named(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"change {numbers[0]} is"
    return f"changes {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} are"


def _show(waiting: Waiting, *, as_json: bool) -> None:
    if as_json:
        show_json({"proposals": list(waiting.proposals), "changes": list(waiting.changes)})
        return
    from daemon.cli.review_view import rows_of
    from daemon.explain.dream import unified_diff

    for dream in waiting.proposals:
        out(f"proposal {dream.id}, {dream.at:%Y-%m-%d %H:%M}, {dream.reason}, by {dream.author}", "bold")
        for row in change_rows(dream):
            out(f"  {row}")
        show_unified(unified_diff(dream.before, dream.after, "as it was", "proposed"))
        out(f"approve it with 'dreamd review {dream.id} --approve', or --decline it")
    width = shutil.get_terminal_size((100, 24)).columns
    for change in waiting.changes:
        for row, style in rows_of(change, width):
            out(row, style)
    if any(one.decision == "waiting" for one in waiting.changes):
        out("'dreamd review --approve 1 2' or --decline decides; --section NAME, --all, or --edit in your editor")
    if any(one.decision == "applied" for one in waiting.changes):
        out("'dreamd review --undo 1 2' brings back the old text of what applied, --accept takes it from this list")
