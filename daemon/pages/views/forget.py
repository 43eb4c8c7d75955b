"""Forget: what would go, the erasing with its receipt, and what stays forgotten.

The text itself is in the body of a form alone: in no address, no log, no row of the ledger.
"""

from pydantic import Field

from daemon.api.operations.request import Nothing, Request
from daemon.api.operations.upkeep import MAX_CHARACTERS, MAX_KEPT, forget_text
from daemon.api.tables.signals import forgotten
from daemon.pages.page import Action, Ask, Done, Page, Replies
from daemon.upkeep.forget import Receipt
from state.errors import UsageError


class Meant(Request):
    """What another page led here for, by its id: words never stand in an address. And which part of the list."""

    limit: int = Field(default=50, ge=1, le=200)
    cursor: str = Field(default="", max_length=1_000)
    text: str = Field(default="", pattern=r"^([Ll][0-9]{1,9}|[0-9a-f]{32})?$")


def _read(ask: Ask, query: Meant) -> Replies:
    return {"forgotten": ask(forgotten, limit=query.limit, cursor=query.cursor)}


class Erasure(Request):
    """What is to be forgotten: a text, or an id of one. What was listed and is not ticked stays."""

    text: str = Field(min_length=1, max_length=MAX_CHARACTERS)
    words: bool = False
    listed: tuple[str, ...] = Field(default=(), max_length=MAX_KEPT)
    ticked: tuple[str, ...] = Field(default=(), max_length=MAX_KEPT)


class Learnable(Request):
    """What may be learnt again."""

    text: str = Field(min_length=1, max_length=MAX_CHARACTERS)


def _preview(ask: Ask, form: Erasure) -> Done:
    receipt = ask(forget_text, form.text, form.words, _kept(form), dry_run=True)
    # The form that erases sends the text once more.
    return Done("Nothing was changed yet.", replies={"forget": receipt, "asked": form})


def _erase(ask: Ask, form: Erasure) -> Done:
    return _erased(ask(forget_text, form.text, form.words, _kept(form), confirm=True))


def _finish(ask: Ask, _: Nothing) -> Done:
    """Go on with what was interrupted."""
    return _erased(ask(forget_text, confirm=True))


def _lift(ask: Ask, form: Learnable) -> Done:
    receipt = ask(forget_text, text=form.text, lift=True)
    said = "It may be learnt again; nothing comes back." if receipt.lifted else "It was not forgotten."
    return Done(said, f"receipt {receipt.digest}")


def _kept(form: Erasure) -> tuple[str, ...]:
    if not form.text.strip():
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    return tuple(one for one in form.listed if one not in form.ticked)


def _erased(receipt: Receipt) -> Done:
    said = "It is forgotten: nothing of it is left." if receipt.clean else "It is forgotten, but for what is left."
    figures = f"{receipt.crystals} crystals, {receipt.pointers} pointers, {'clean' if receipt.clean else 'not clean'}"
    return Done(said, f"receipt {receipt.digest}: {figures}", replies={"forget": receipt})


PAGE = Page(
    "forget",
    "Forget",
    _read,
    Meant,
    actions=(
        Action("preview", Erasure, _preview, long=True, reads=True),
        Action("erase", Erasure, _erase, long=True),
        Action("finish", Nothing, _finish, long=True),
        Action("lift", Learnable, _lift),
    ),
)
