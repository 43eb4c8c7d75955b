"""memory_search as an agent or a person asks it: what is newest is found, and asking leaves a trace."""

from daemon.ingest.notes import absorb_notes
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import EMBED_BATCH, Store, utc_now
from state.search.ranking import Filters, Findings
from state.signals.curiosity import Cause, gap_of_search

_NO_FILTERS = Filters()
_MATCHES = 0.5


def recall(store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS) -> Findings:
    """What answers the query, for the workspace's owner.

    Pending notes are crystals before the search begins. Each hit that matches at least half as well as the best
    counts as an access; a query that nothing answers is an open question; one that is a pointer's keywords is a use
    of that pointer.
    """
    now = utc_now()
    absorb_notes(store, now)
    embedder = store.embedder()
    if embedder is not None:
        # The newest first, and not all of a large ingestion: the others are found by their words.
        store.crystals.vectors.embed_pending(embedder, EMBED_BATCH)
    found = look(store, query, limit, filters)
    keywords = " ".join(query.split()).strip("`")
    store.lineage.use_pointer(keywords)
    if found.good:
        # The rest stands there only because so many were asked for.
        enough = found.hits[0].score * _MATCHES if found.hits else 0.0
        store.crystals.touch([hit.crystal.id for hit in found.hits if hit.score >= enough], now)
    elif filters == _NO_FILTERS and (gap := gap_of_search(redacted(store, keywords))) is not None:
        store.questions.raise_(gap, Cause.MISS, now)
    return found


def look(store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS) -> Findings:
    """What answers the query, as the stores are; nothing is written."""
    now = utc_now()
    return store.searcher().search(query, now, limit=limit, filters=filters, hormones=store.feelings.levels(now))
