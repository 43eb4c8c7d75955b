"""Acts: what a person does on a page, carried out by operations, with a row in the ledger for each."""

import sqlite3
from typing import Any

from daemon.api.operations.request import Request
from daemon.http.logins import Session
from daemon.observability import logs
from daemon.pages.page import Action, Ask, Done
from daemon.workspace.redaction import shown_of
from state.errors import DreamdError
from state.stores.database.tables import Act

DONE = "done"


def act(ask: Ask, page: str, action: Action[Any], form: Request, session: Session) -> Done:
    """Carry it out, and tell the ledger how it ended. Raises what it raises."""
    try:
        done = action.run(ask, form)
    except DreamdError as error:
        _tell(ask, page, action, session, Done(""), error.code)
        raise
    _tell(ask, page, action, session, done, DONE)
    return done


def _tell(ask: Ask, page: str, action: Action[Any], session: Session, done: Done, outcome: str) -> None:
    """Tell the ledger. That it cannot be told does not undo what was done: the log says so then."""
    if action.reads:
        return
    author, name = f"owner, in the window ({session.name})", f"{page}: {action.name}"
    try:
        with ask.access.write() as store:
            # An agent names a session as it likes; a page from before a forgetting still has such a name.
            about = shown_of(store)(done.about)
            did = Act(at=ask.now, author=author, act=name, about=about, outcome=outcome, version=done.version)
            store.acts.record(did)
    except (DreamdError, sqlite3.Error, OSError) as error:
        logs.get(workspace=ask.access.workspace.root.name).warning("act_unrecorded", act=name, error=error)
