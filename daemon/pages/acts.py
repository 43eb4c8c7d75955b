"""Acts: what a person does on a page, with a row in the ledger for each, and what takes it back."""

import sqlite3
from dataclasses import replace

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.request import Request
from daemon.api.operations.versions import diff, restore_version
from daemon.http.logins import Session
from daemon.observability import logs
from daemon.pages.forms import Version
from daemon.pages.page import Act, Ask, Done, Undo
from daemon.pages.templates import counted
from daemon.workspace.redaction import shown_of
from state.errors import ConflictError, DreamdError
from state.stores.database import tables

DONE = "done"
_ADVICE = "the page Dreams has every version, and restores the one that you choose"


def carry_out(ask: Ask, page: str, act: Act, form: Request, session: Session) -> Done:
    """Carry it out, and tell the ledger how it ended. Raise what it raises."""
    try:
        done = act.run(ask, **form.given)
    except DreamdError as error:
        _tell(ask, page, act, session, Done(""), error.code)
        raise
    _tell(ask, page, act, session, done, DONE)
    return replace(done, undo=replace(done.undo, page=page)) if done.undo else done


def _tell(ask: Ask, page: str, act: Act, session: Session, done: Done, outcome: str) -> None:
    """Tell the ledger. A failure to do so undoes nothing; it goes to the log."""
    if act.reads:
        return
    author, name = f"owner, in the window ({session.name})", f"{page}: {act.name}"
    try:
        with ask.access.write() as store:
            # An agent names a session as it likes; a page from before a forgetting still has such a name.
            about = shown_of(store)(done.about)
            store.acts.record(
                tables.Act(at=ask.now, author=author, act=name, about=about, outcome=outcome, version=done.version)
            )
    except (DreamdError, sqlite3.Error, OSError) as error:
        logs.get(workspace=ask.access.workspace.root.name).warning("act_unrecorded", act=name, error=error)


def undo_of(made: int | None) -> Undo | None:
    """Return what takes this version back; None without a version before it."""
    return Undo("undo", {"version": made - 1, "made": made}) if made is not None and made > 1 else None


def _undo(ask: Ask, version: Version, made: Version) -> Done:
    """Restore the version before an act. Raise ConflictError if that would take along what was written since."""
    stands = ask(dream_status).version
    if stands != made:
        raise ConflictError(
            f"MEMORY.md was at version {made} then, and is at version {stands} now: nothing was undone", _ADVICE
        )
    if ask(diff, file=True).diff:
        raise ConflictError("MEMORY.md was written by hand since then: nothing was undone", _ADVICE)
    done = ask(restore_version, version)
    number = done.dream.number
    waits = f" {counted(done.pending, 'note waits', 'notes wait')} for the next dream." if done.pending else ""
    said = f"Undone: MEMORY.md is as it was in version {version}; that is version {number} now.{waits}"
    return Done(said, f"version {version}", number, undo_of(number))


UNDO = Act(_undo, "undo", long=True)
