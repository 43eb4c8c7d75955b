"""Forgetting: erasing a text everywhere, with a receipt; and letting it be learnt again."""

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Request, operation
from daemon.upkeep.forget import ForgetRequest, Receipt, forget, lift, rehearse
from daemon.workspace.stores import utc_now
from state.errors import ConfirmRequiredError
from state.forgetting.matching import Cut
from state.stores.database.tombstones_copy import keep_copy

# As JSON escapes them, so many fit into the body of a request, whatever they are.
MAX_CHARACTERS = 80_000


class Forget(Request):
    """What is to be forgotten, and how much goes with it."""

    text: str = Field(
        default="",
        max_length=MAX_CHARACTERS,
        description="A text, or the id of a crystal, a line (L12) or a memory; empty: what was interrupted",
    )
    words: bool = Field(default=False, description="Only the words themselves go, not the sentences that hold them")
    derived: bool = Field(default=False, description="Also what was made of nothing else, in other words")
    dry_run: bool = Field(default=False, description="Say what would go, and change nothing")
    lift: bool = Field(default=False, description="Let it be learnt again; nothing comes back")
    confirm: bool = Field(default=False, description="It cannot be undone: say true")


@operation("forget", "/forget", long=True)
def forget_text(access: WorkspaceAccess, request: Forget) -> Receipt:
    """Erase a text from everything that is remembered, search every byte for it, and say where it was."""
    wish = ForgetRequest(request.text, Cut.WORDS if request.words else Cut.SENTENCES, request.derived)
    if request.lift:
        with access.write() as store:
            receipt = lift(store, request.text, utc_now())
            keep_copy(store.crystals.connection, store.disk, store.workspace.state)
            return receipt
    if not request.dry_run and not request.confirm:
        raise ConfirmRequiredError(
            "what is forgotten cannot be brought back", "say confirm=true, or dry_run=true first"
        )
    with access.exclusive() as store:
        if request.dry_run:
            return rehearse(store, wish, utc_now())
        receipt = forget(store, wish, utc_now(), access.report)
        keep_copy(store.crystals.connection, store.disk, store.workspace.state)
    access.mark_changed()
    return receipt
