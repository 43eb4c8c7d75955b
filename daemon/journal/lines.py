"""Lines: the owner's edits of single lines, all or nothing, as one version."""

import hashlib
from collections.abc import Mapping, Sequence

from daemon.dream.memory import commit_owners
from daemon.dream.snapshot import standing
from daemon.dream.standing import shown
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import CONFLICT, Carried, Wish, change_lines
from state.dream import Dream
from state.errors import ConflictError, DreamdError, RejectedError

_UNCHANGED = "nothing was changed; look at MEMORY.md as it is now"


def change(store: Store, wishes: Sequence[Wish], digest: str = "") -> tuple[Dream, Mapping[int, str]]:
    """Carry out these edits of lines as one version; return it, and the text that each edit wrote, by its place.

    `digest` is that of the file the person saw (empty: not checked). All or nothing: raise ConflictError if a line or
    the file has changed since, and RejectedError if a guard refuses an edit; the error's `fields` name each edit by
    its place.
    """
    if not store.lineage.last_version():
        raise ConflictError("no dream has read MEMORY.md yet", "change the file, or run 'dreamd dream' first")
    settle_document(store)
    content = store.memory.disk.read_optional(store.workspace.document) or b""
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ConflictError("MEMORY.md is not what it was when you looked at it", _UNCHANGED)
    done = change_lines(standing(store, utc_now()), wishes, lambda text: shown(store, text)[0])
    if done.dream is None:
        raise _refused(done)
    return commit_owners(store, done.dream, done.dream.reason), done.texts


def _refused(done: Carried) -> DreamdError:
    """Return the error that lists why edits were refused; conflicts take precedence over guards."""
    conflicts = {place: one for place, one in done.refused.items() if one.guard == CONFLICT}
    fields = {
        f"changes.{place}{'.expected' if one.scope == 'expected' else ''}": one.figures
        for place, one in sorted((conflicts or done.refused).items())
    }
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    kind = ConflictError if conflicts else RejectedError
    error = kind(f"{next(iter(fields.values()))}{more}", _UNCHANGED)
    error.details = {"fields": fields}
    return error
