"""Forget: what would go, the erasing with its receipt, and what stays forgotten.

The text itself is in the body of a form alone: in no address, no log, no row of the ledger.
"""

from typing import Annotated

from pydantic import Field

from daemon.api.operations.upkeep import MAX_CHARACTERS, MAX_KEPT, forget_text
from daemon.api.tables.signals import forgotten
from daemon.pages.forms import Cursor
from daemon.pages.page import Act, Ask, Done, Page, Shown
from daemon.upkeep.forget import Receipt
from state.errors import UsageError

_MOST = 50
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Ids = Annotated[tuple[str, ...], Field(max_length=MAX_KEPT)]


def _read(
    ask: Ask,
    text: Annotated[str, Field(pattern=r"^([Ll][0-9]{1,9}|[0-9a-f]{32})?$")] = "",  # noqa: ARG001 - for the template
    cursor: Cursor = "",
) -> Shown:
    """Read what stays forgotten; `text` is what another page led here for, by its id: no words are in an address."""
    return Shown({"forgotten": ask(forgotten, limit=_MOST, cursor=cursor)})


def _preview(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    receipt = ask(forget_text, text, words, _kept(text, listed, ticked), dry_run=True)
    # The form that erases sends the text once more.
    return Done("Nothing was changed yet.", replies={"receipt": receipt, "text": text, "words": words})


def _erase(ask: Ask, text: Text, words: bool = False, listed: Ids = (), ticked: Ids = ()) -> Done:
    return _erased(ask(forget_text, text, words, _kept(text, listed, ticked), confirm=True))


def _finish(ask: Ask) -> Done:
    """Go on with what was interrupted."""
    return _erased(ask(forget_text, confirm=True))


def _lift(ask: Ask, text: Text) -> Done:
    receipt = ask(forget_text, text=text, lift=True)
    said = "It may be learnt again; nothing comes back." if receipt.lifted else "It was not forgotten."
    return Done(said, f"receipt {receipt.digest}")


def _kept(text: str, listed: Ids, ticked: Ids) -> Ids:
    """Return what stays: what was listed and is not ticked."""
    if not text.strip():
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    return tuple(one for one in listed if one not in ticked)


def _erased(receipt: Receipt) -> Done:
    said = "It is forgotten: nothing of it is left." if receipt.clean else "It is forgotten, but for what is left."
    figures = f"{receipt.crystals} crystals, {receipt.pointers} pointers, {'clean' if receipt.clean else 'not clean'}"
    return Done(said, f"receipt {receipt.digest}: {figures}", replies={"receipt": receipt})


_ACTS = (
    Act(_preview, "preview", long=True, reads=True),
    Act(_erase, "erase", long=True),
    Act(_finish, "finish", long=True),
    Act(_lift, "lift"),
)
PAGE = Page("forget", "Forget", _read, acts=_ACTS)
