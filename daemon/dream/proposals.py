"""Proposals: dreams that wait for their owner, who approves or declines them."""

from daemon.dream.memory import WorkspaceMemory
from daemon.workspace.stores import Store, utc_now
from state.dream import Dream, decode_record
from state.errors import RejectedError

# The ledger's detail of a declined proposal: the dream itself did not fail.
DECLINED = "by the owner"


def approve(store: Store, dream: str) -> Dream:
    """Commit a waiting proposal.

    Raises RejectedError when MEMORY.md has a newer version than the one it was made for.
    """
    proposal = store.ledger.proposal(dream)
    record = decode_record(proposal.record, f"proposal {proposal.dream}")
    # Decided before a crash: the commit was finished since, or is now.
    if not store.journal.decided(record.id) and record.number != store.lineage.last_version() + 1:
        store.ledger.decide(record.id, "outdated")
        store.ledger.end(record.id, "rejected", "outdated: there is a newer version", utc_now())
        raise RejectedError(
            f"proposal {record.id} was made for version {record.number - 1} and there is a newer one",
            "its notes are pending, run 'dreamd dream'",
        )
    done = WorkspaceMemory(store).commit(record)
    store.ledger.decide(record.id, "approved")
    store.ledger.end(record.id, "committed", "approved", utc_now(), done.number)
    return done


def decline(store: Store, dream: str) -> str:
    """Reject a waiting proposal; its notes stay pending. Returns its id."""
    proposal = store.ledger.proposal(dream)
    store.ledger.decide(proposal.dream, "rejected")
    store.ledger.end(proposal.dream, "rejected", DECLINED, utc_now())
    return proposal.dream
