"""Review todo: changes as a text to edit, and the text read back as decisions, like git rebase's todo list."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.api.text import grounds, heading
from daemon.cli.review import is_number
from daemon.cli.terminal import say
from state.errors import DreamdError, NothingToDoError, UsageError
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.operations.review import ChangeToReview

KEEP = "skip"
# For each word that may stand before a number the field of the request; `edit` is approval in other words.
_FIELDS = {"approve": "approve", "edit": "approve", "decline": "decline", "accept": "accept", "undo": "undo"}
_HELP = f"""\
# Changes of MEMORY.md to decide on. Change the word before a number:
#   {KEEP}     leave it as it is
#   approve  let it apply; the text beside it is what will be written, so you may edit it ('edit' is the same)
#   decline  refuse it, for good
#   accept   it has applied, and is right
#   undo     it has applied, and is wrong: the old text comes back
# Lines that begin with # are not read. A line that is missing counts as {KEEP}. An empty text changes nothing.
"""


def edited(
    changes: "Sequence[ChangeToReview]",
    workspace: Workspace,
    file: Path | None,
    decide: Callable[[Mapping[str, Any]], int],
) -> int:
    """Decide by the file, else by a text that the person edits; one that cannot be carried out is kept."""
    if file is not None:
        return decide(read(_text_of(file), changes))
    if not changes:
        raise NothingToDoError("no change of a line waits for you", "dream.approve and dream.mode say what does")
    text = written(changes)
    with storage_errors(workspace.state):  # for this user alone, where a forgetting finds it
        handle, name = tempfile.mkstemp(".txt", "review-", workspace.state)
        with os.fdopen(handle, "w", encoding="utf-8") as open_file:
            open_file.write(text)
    file = Path(name)
    try:
        _edit(file)
        status = decide(read(_text_of(file), changes))
    except DreamdError:
        if file.exists() and file.read_bytes() not in {b"", text.encode()}:
            say(f"your text is kept: mend it, then run 'dreamd review --from {shlex.quote(name)}'")
        else:
            file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)
    return status


def _edit(file: Path) -> None:
    """Open the file in the person's editor. Raise UsageError when there is none or it fails."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        ended = subprocess.run([*shlex.split(command), str(file)], check=False)  # noqa: S603 - the person's own editor
    except (OSError, ValueError) as error:
        raise UsageError(f"the editor {command!r:.80} does not start ({error})", "set VISUAL or EDITOR") from error
    if ended.returncode:
        raise UsageError(f"the editor {command!r:.80} ended with {ended.returncode}", "nothing has changed")


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}", "nothing has changed") from error


def written(changes: "Sequence[ChangeToReview]") -> str:
    """Return the text to edit: a line for each change, and below it, in comments, what is known of it."""
    parts = [_HELP]
    for change in changes:
        rows = [heading(change), *(f"was: {text}" for text in change.old if change.new), *grounds(change)]
        parts.append(f"{KEEP} {change.number} {_text(change)}\n" + "".join(f"#    {_one_row(row)}\n" for row in rows))
    return "\n".join(parts)


def read(text: str, changes: "Sequence[ChangeToReview]") -> dict[str, tuple[Any, ...]]:
    """Return the fields of the request that the text says.

    Raise UsageError that names the line it cannot read, and NothingToDoError when nothing is decided.
    """
    known, decided, texts = {str(one.number): one for one in changes}, dict[int, str](), list[dict[str, Any]]()
    for at, row in enumerate(text.splitlines(), 1):
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        word, name, said = [*row.split(maxsplit=2), "", ""][:3]
        if word not in _FIELDS and word != KEEP:
            raise UsageError(f"line {at}: {word!r:.40} is no decision", f"there are {', '.join((KEEP, *_FIELDS))}")
        if not is_number(name) or (change := known.get(str(int(name)))) is None:
            raise UsageError(f"line {at}: there is no change {name!r:.40}", "leave the numbers as they are")
        if change.number in decided:
            raise UsageError(f"line {at}: change {change.number} stands there twice", "leave one line of it")
        decided[change.number] = word
        if word != KEEP and _one_row(said) != _text(change):
            if _FIELDS[word] != "approve" or not change.new or not said:
                advice = "leave it as it was" if said else "write one, or decline it"
                raise UsageError(f"line {at}: change {change.number} cannot have this text", advice)
            texts.append({"number": change.number, "text": _one_row(said)})
    if not set(decided.values()) - {KEEP}:
        raise NothingToDoError("nothing is decided, so nothing has changed", "change the word before a number")
    fields = {
        field: tuple(n for n, word in decided.items() if _FIELDS.get(word) == field) for field in _FIELDS.values()
    }
    return {**fields, "texts": tuple(texts)}


def _text(change: "ChangeToReview") -> str:
    """Return what is written, or what leaves, in one row."""
    return _one_row(change.new or " / ".join(change.old))


def _one_row(text: str) -> str:
    return " ".join(text.split())
