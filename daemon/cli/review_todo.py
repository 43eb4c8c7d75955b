"""Review todo: staged changes as a text to edit, and the text read back as decisions, like git rebase's todo list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daemon.cli.review_view import cited, heading
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.changes import ChangeToReview

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


@dataclass(frozen=True, slots=True)
class Todo:
    """The decisions of a text: numbers by the field of the request, and the texts that were edited."""

    numbers: Mapping[str, tuple[int, ...]]
    texts: Mapping[int, str]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is decided."""
        return not any(self.numbers.values())

    def decisions(self) -> dict[str, Any]:
        """Return the decisions as the operation takes them."""
        from daemon.api.operations.changes import OwnText

        texts = tuple(OwnText(number=number, text=text) for number, text in self.texts.items())
        return {**self.numbers, "texts": texts}


def written(changes: "Sequence[ChangeToReview]") -> str:
    """Return the text to edit: a line for each change, and below it, in comments, what is known of it."""
    parts = [_HELP]
    for change in changes:
        rows = [f"was: {text}" for text in change.old if change.new]
        rows += [cited(piece) for piece in change.evidence]
        rows += [change.why] if change.why else []
        rows += ["its lines are no longer what they were, so it cannot apply"] if change.outdated else []
        comments = "".join(f"#    {_one_row(row)}\n" for row in (heading(change), *rows))
        parts.append(f"{KEEP} {change.number} {_text(change)}\n{comments}")
    return "\n".join(parts)


def read(text: str, changes: "Sequence[ChangeToReview]") -> Todo:
    """Return the decisions in an edited text. Raise UsageError that names the line which cannot be read."""
    known = {change.number: change for change in changes}
    decided: dict[int, str] = {}
    texts: dict[int, str] = {}
    for at, row in enumerate(text.splitlines(), 1):
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        word, number, said = _cut(row, at)
        if number not in known:
            raise UsageError(f"line {at}: there is no change {number}", "leave the numbers as they are")
        if number in decided:
            raise UsageError(f"line {at}: change {number} stands there twice", "leave one line of it")
        decided[number] = word
        if word == KEEP:
            continue
        _require_fit(known[number], word, at)
        if said != _text(known[number]):
            texts[number] = _own_text(known[number], word, said, at)
    numbers = {
        field: tuple(number for number, word in decided.items() if _FIELDS.get(word) == field)
        for field in dict.fromkeys(_FIELDS.values())
    }
    return Todo(numbers, texts)


def _cut(row: str, at: int) -> tuple[str, int, str]:
    """Return word, number and text of a line."""
    word, *rest = row.split(maxsplit=2)
    if word not in _FIELDS and word != KEEP:
        raise UsageError(f"line {at}: {word!r:.40} is no decision", f"there are {', '.join((KEEP, *_FIELDS))}")
    if not rest or not (rest[0].isascii() and rest[0].isdecimal()):
        raise UsageError(f"line {at}: there is no number after {word!r}", "leave the numbers as they are")
    return word, int(rest[0]), " ".join(rest[1].split()) if len(rest) > 1 else ""


def _require_fit(change: "ChangeToReview", word: str, at: int) -> None:
    """Return if a change of this kind can be decided so. Raise UsageError."""
    possible = ("accept", "undo") if change.decision == "applied" else ("approve", "edit", "decline")
    if word not in possible:
        raise UsageError(f"line {at}: change {change.number} cannot be {word!r}", f"it takes {', '.join(possible)}")


def _own_text(change: "ChangeToReview", word: str, said: str, at: int) -> str:
    if _FIELDS[word] != "approve" or not change.new:
        raise UsageError(f"line {at}: the text of change {change.number} is not to be edited", "leave it as it was")
    if not said:
        raise UsageError(f"line {at}: change {change.number} has no text", "write one, or decline it")
    return said


def _text(change: "ChangeToReview") -> str:
    """Return what is written, or what leaves, in one row."""
    return _one_row(change.new or " / ".join(change.old))


def _one_row(text: str) -> str:
    return " ".join(text.split())
