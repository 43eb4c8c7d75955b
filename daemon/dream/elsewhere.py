"""Elsewhere: a dream that another process runs without a daemon, followed in the workspace's ledger until it ends."""

import time
from collections.abc import Callable
from datetime import datetime

from daemon.config.settings import Config
from daemon.dream.progress import LOOK_SECONDS, Step, follow
from daemon.dream.run import Mode, Outcome
from daemon.workspace.stores import Store, open_readonly
from state.stores.disk.lock import Holder, present_holder
from state.stores.disk.workspace import Workspace

_LATEST = 20  # runs that are looked through


def follow_elsewhere(
    workspace: Workspace, config: Config, holder: Holder, on_step: Callable[[Step], None]
) -> Outcome | None:
    """Report the steps of the dream of this holder of the lock, until it lets go; return its outcome.

    Return None if it made no version: it was refused, failed, was killed, or was only to be shown.
    """
    since = datetime.fromisoformat(holder.started)

    def has_ended() -> bool:
        time.sleep(LOOK_SECONDS)
        present = present_holder(workspace)
        return present is None or present.fence != holder.fence

    while not workspace.database.exists():  # the first dream of all makes it
        if has_ended():
            return None
    with open_readonly(workspace, config) as store:
        follow(store.ledger, since, on_step, has_ended)
        return _outcome(store, since)


def _outcome(store: Store, since: datetime) -> Outcome | None:
    # Another process that followed it may have looked for what is new since, and found nothing.
    ended = (run for run in store.ledger.runs(_LATEST) if run.ended_at is not None and run.ended_at >= since)
    run = next((run for run in ended if run.outcome != "skipped"), None)
    if run is None or run.version is None:
        return None
    pending = store.notes.count()
    return Outcome(
        dream=store.memory.version(run.version),
        mode=Mode.AUTO,
        refused=tuple(store.ledger.rejections(run.id)),
        resumed=False,
        pending=pending.notes,
        more=pending.more,
        proposals=store.proposals.count(),
    )
