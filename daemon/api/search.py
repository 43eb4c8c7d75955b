"""Search of the long-term memory: of its owner, who also gets the newest notes, or of somebody who only reads."""

from daemon.ingest.notes import absorb_notes
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import EMBED_BATCH, Store, utc_now
from state.search.ranking import Filters, Findings
from state.signals.curiosity import Cause, gap_of_search

_NO_FILTERS = Filters()
# Of more crystals than one batch so many are embedded before a search: a tenth of a second.
_NEWEST = 16
# Hits below this share of the best score stand there only to fill the limit.
_COUNTED_SHARE = 0.5


def recall(store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS, *, agent: str = "") -> Findings:
    """Search as `look` does, and record what was found and what an agent missed. `agent` names who asks.

    Each hit that matches at least half as well as the best counts as an access; an agent's query that nothing answers
    becomes its open question; the keywords of a pointer count as a use of that pointer.
    """
    findings, now = look(store, query, limit, filters), utc_now()
    keywords = " ".join(query.split()).strip("`")
    store.lineage.use_pointer(keywords)
    if findings.good:
        enough = findings.hits[0].score * _COUNTED_SHARE if findings.hits else 0.0
        store.crystals.touch([hit.crystal.id for hit in findings.hits if hit.score >= enough], now)
    elif agent and filters == _NO_FILTERS and (gap := gap_of_search(redacted(store, keywords))) is not None:
        store.questions.raise_(gap, Cause.MISS, now)
    return findings


def look(store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS) -> Findings:
    """Search for the owner who looks through a window: nobody used what it finds, so nothing is recorded.

    Pending notes become crystals first.
    """
    now = utc_now()
    absorb_notes(store, now)
    embedder = store.embedder()
    if embedder is not None:
        # Of a large ingestion, or a lost index, the newest only: the rest is found by its words until then.
        store.crystals.vectors.settle()
        is_much = store.crystals.vectors.waiting()[0] > EMBED_BATCH
        store.crystals.vectors.embed_pending(embedder, _NEWEST if is_much else EMBED_BATCH)
    return search(store, query, limit, filters)


def search(store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS) -> Findings:
    """Search for somebody who does not own the workspace: nothing is written."""
    now = utc_now()
    return store.searcher().search(query, now, limit=limit, filters=filters, hormones=store.feelings.levels(now))
