"""Sheet: what is wrong or to be forgotten, everywhere it is said.

The text that is to be forgotten is in the body of a form alone: in no address, no log, no row of the ledger.
"""

from typing import Annotated

from pydantic import Field

from daemon.api.operations.signals import forgotten
from daemon.api.operations.upkeep import MAX_CHARACTERS, MAX_KEPT, forget_text
from daemon.pages.page import Act, Ask, Done, Page
from daemon.pages.today import Beside
from daemon.upkeep.forget import Receipt
from state.errors import UsageError
from state.text.words import counted

_FORGOTTEN = 200
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Ids = Annotated[tuple[str, ...], Field(max_length=MAX_KEPT)]


def _forget(
    ask: Ask,
    text: Annotated[str, Field(pattern=r"^([Ll][0-9]{1,9}|[0-9a-f]{32})?$")] = "",  # noqa: ARG001 - for the template
) -> Beside:
    """Read what stays forgotten; `text` is what another page led here for, by its id: no words are in an address."""
    ask(forgotten, limit=_FORGOTTEN)
    return {}


def _preview(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    receipt = ask(forget_text, text, words, _ids_to_keep(text, listed, ticked), dry_run=True)
    # The form that erases sends the text once more.
    return Done("Nothing was changed yet.", replies={"receipt": receipt, "text": text, "words": words})


def _erase(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    return _erased(ask(forget_text, text, words, _ids_to_keep(text, listed, ticked), confirm=True))


def _finish(ask: Ask) -> Done:
    """Go on with what was interrupted."""
    return _erased(ask(forget_text, confirm=True))


def _lift(ask: Ask, text: Text) -> Done:
    receipt = ask(forget_text, text=text, lift=True)
    said = "It may be learnt again; nothing comes back." if receipt.lifted else "It was not forgotten."
    return Done(said, f"receipt {receipt.digest}")


def _ids_to_keep(text: str, listed: Ids, ticked: Ids) -> Ids:
    """Return what stays: what was listed and is not ticked."""
    if not text.strip():
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    return tuple(one for one in listed if one not in ticked)


def _erased(receipt: Receipt) -> Done:
    said = "It is forgotten: nothing of it is left." if receipt.clean else "It is forgotten, but for what is left."
    counts = f"{counted(receipt.crystals, 'crystal')}, {counted(receipt.pointers, 'pointer')}"
    figures = f"{counts}, {'clean' if receipt.clean else 'not clean'}"
    return Done(said, f"receipt {receipt.digest}: {figures}", replies={"receipt": receipt})


_FORGETTING = (
    Act(_preview, "preview", long=True, reads=True),
    Act(_erase, "erase", long=True),
    Act(_finish, "finish", long=True),
    Act(_lift, "lift"),
)
FORGET = Page("forget", "Forget", _forget, acts=_FORGETTING)
