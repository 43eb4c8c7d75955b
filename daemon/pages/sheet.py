"""Sheet: what is wrong or to be forgotten, in every place that says it: put right, or erased.

A text is in the body of a form alone: in no address, no log, no row of the ledger.
"""

import re
from typing import Annotated

from pydantic import Field

from daemon.api.operations.memory import MOST_PLACES, correct, lines
from daemon.api.operations.signals import forgotten
from daemon.api.operations.upkeep import MAX_CHARACTERS, MAX_KEPT, forget_text
from daemon.dream.standing import Line
from daemon.pages.page import UNDO, Act, Ask, Beside, Done, Page, undo_of
from daemon.upkeep.forget import Receipt
from state.errors import UsageError
from state.forgetting.cutting import sentences
from state.text.line import LINE_CHARACTERS
from state.text.words import counted, normalise, repeat_key

_FORGOTTEN = 200
_WHICH = r"(?:\.[0-9]{1,3})?"
_SENTENCE = re.compile(r"(?:[Ll][0-9]{1,9}|[0-9a-f]{32})\.[0-9]{1,3}")
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS, pattern=r"\S")]
Right = Annotated[str, Field(max_length=LINE_CHARACTERS)]
Ids = Annotated[tuple[str, ...], Field(max_length=max(MAX_KEPT, MOST_PLACES))]


# What acts show on the page, or a line that is asked about.
_NOTHING: dict[str, object] = {**dict.fromkeys(("receipt", "found", "meant")), "text": "", "words": False}


def _sheet(
    ask: Ask,
    line: Annotated[str, Field(pattern=rf"^(?:[Ll][0-9]{{1,9}}{_WHICH})?$")] = "",
    crystal: Annotated[str, Field(pattern=rf"^(?:[0-9a-f]{{32}}{_WHICH})?$")] = "",
) -> Beside:
    """Read where it says what a line or a crystal says, or one sentence of it."""
    if name := line or crystal:
        return _NOTHING | _found(ask, name)
    ask(forgotten, limit=_FORGOTTEN)
    return _NOTHING


def _found(ask: Ask, name: str) -> dict[str, object]:
    found = ask(correct, name, dry_run=True)
    is_sentence = _SENTENCE.fullmatch(name.strip()) is not None
    parts = [] if is_sentence else [found.wrong[start:end].strip() for start, end in sentences(found.wrong)]
    # A forgetting knows no sentence by its number.
    to_erase = found.wrong if is_sentence else name
    return {"found": found, "text": name, "to_erase": to_erase, "sentences": parts if len(parts) > 1 else []}


def _look(ask: Ask, text: Text, words: bool = False) -> Done:
    """Show where it says what a text says; `words` is for its erasure."""
    try:
        found = _found(ask, text)
    except UsageError:
        if not (meant := _lines_with(ask, text)):
            raise
        found = {"meant": meant, "text": text}
    return Done("", replies={**found, "sentences": [], "words": words})


def _lines_with(ask: Ask, text: str) -> list[Line]:
    """Return the lines that have this text, of which its owner means one."""
    key = repeat_key(text)
    every = (one for section in ask(lines).sections for one in section.lines if one.id and not one.keywords)
    return [one for one in every if key and key in repeat_key(one.text)]


def _put_right(ask: Ask, text: Text, right: Right = "", said: Text = "", ticked: Ids = ()) -> Done:
    """Put it right where it is ticked; `said` is what the sheet has as wrong."""
    if not ticked:
        raise UsageError("nothing is ticked: nothing was changed", "tick where it is wrong")
    if normalise(right) == normalise(said):
        raise UsageError("what is right says the same as what is wrong", "change it, or leave it empty")
    done = ask(correct, text, " ".join(right.split()), ticked)
    places = counted(len(done.mentions), "place")
    return Done(
        f"✓ Put right in {places}. Your agent reads it from its next start on.",
        f"put right in {places}",
        done.version,
        undo_of(done.version, "the correction"),
    )


def _trace(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    receipt = ask(forget_text, text, words, _ids_to_keep(listed, ticked), dry_run=True)
    # The form that erases sends the text once more.
    return Done("Nothing was changed yet.", replies={"receipt": receipt, "text": text, "words": words})


def _erase(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    return _erased(ask(forget_text, text, words, _ids_to_keep(listed, ticked), confirm=True))


def _finish(ask: Ask) -> Done:
    """Go on with what was interrupted."""
    return _erased(ask(forget_text, confirm=True))


def _lift(ask: Ask, text: Text) -> Done:
    receipt = ask(forget_text, text=text, lift=True)
    said = "It may be learnt again; nothing comes back." if receipt.lifted else "It was not forgotten."
    return Done(said, f"receipt {receipt.digest}")


def _ids_to_keep(listed: Ids, ticked: Ids) -> Ids:
    """Return what was listed and is not ticked."""
    return tuple(one for one in listed if one not in ticked)


def _erased(receipt: Receipt) -> Done:
    said = "It is forgotten: nothing of it is left." if receipt.clean else "It is forgotten, but for what is left."
    counts = f"{counted(receipt.crystals, 'crystal')}, {counted(receipt.pointers, 'pointer')}"
    figures = f"{counts}, {'clean' if receipt.clean else 'not clean'}"
    return Done(said, f"receipt {receipt.digest}: {figures}", replies={"receipt": receipt})


_ACTS = (
    Act(_look, "look", reads=True),
    Act(_put_right, "right", long=True),
    UNDO,
    Act(_trace, "trace", long=True, reads=True),
    Act(_erase, "erase", long=True),
    Act(_finish, "finish", long=True),
    Act(_lift, "lift"),
)
WRONG = Page("wrong", "What is wrong", _sheet, acts=_ACTS, under="memory", template="sheet")
