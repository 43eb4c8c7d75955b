"""Operations that read the memory: search, bootstrap, where a line comes from, why something was missing."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Annotated, Literal

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Moment
from daemon.api.text import bootstrap_text, search_text, why_not_text, why_text
from daemon.ingest.notes import absorb_notes
from daemon.journal.ranks import SearchSignals, signals_of
from daemon.journal.story import LineStory, story_of_line
from daemon.journal.why_not import Answer, why_not
from daemon.sessions import left_behind
from daemon.sessions.crystals import trust_of
from daemon.workspace.searching import BATCH, embedder_of, searcher_of, tell
from daemon.workspace.session_start import session as session_start
from daemon.workspace.stores import Store, utc_now
from state.agents import agent_called
from state.bootstrap import budget_for
from state.crystals.crystal import Kind, Origin
from state.errors import BusyError, DreamdError, FullError, ReadOnlyError
from state.search.ranking import Filters, Findings, Hit
from state.signals.curiosity import Cause, gap_of_search
from state.stores.crystals.hormones import Feelings, Questions
from state.stores.database.connection import explained
from state.stores.history.leave_receipt import leave_receipt
from state.trust import Trust

MAX_LIMIT = 1_000
_NO_FILTERS = Filters()
# If more than a batch waits, a search embeds only this many of the newest crystals first, in 0.1 s.
_NEWEST = 16
# Hits below this share of the best score only fill the limit, and do not count as an access.
_COUNTED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class FormerWording:
    """What a line of MEMORY.md said before. A draft was replaced by the dream that wrote it."""

    text: str
    at: datetime
    is_draft: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """A text that is near to a result, and was said after it."""

    text: str
    at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result. `score`: how likely it answers the query, as the share of similar results that do, in [0, 1].

    `provenance` is file:lines@hash, empty if it came from no file.

    `superseded_by` is the text of a newer result that gives the same subject another value, said at `superseded_at`.
    `line`: the id of the line of MEMORY.md that says it; `formerly`: what the line said before, or a value that this
    result supersedes, the latest first. `later`: what is near to it and was said after it.
    `signals`: the reasons for its rank, if requested.
    """

    id: str
    text: str
    score: float
    origin: str
    kind: str
    trust: str
    provenance: str
    age_days: float
    created_at: datetime
    importance: float
    context: str
    speaker: str
    session: str
    superseded_by: str = ""
    superseded_at: datetime | None = None
    line: str = ""
    formerly: tuple[FormerWording, ...] = ()
    later: Later | None = None
    signals: SearchSignals | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """A memory that left its session and was not kept, found by its words; memory_restore brings it back."""

    id: str
    session: str
    text: str
    trust: str
    age_days: float
    created_at: datetime
    importance: float


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The results of a search, best first.

    `good`: something answers the query well. `arms`: "lexical", and "dense" if meaning was compared too. `unlikely`:
    how many similar results were left out as unlikely to answer; `over`: how many because another one holds now, or
    because they only asked what was answered. `questions`: what only asks the same. `archived`: results from the
    sessions' archive, if requested.
    """

    query: str
    good: bool
    arms: tuple[str, ...]
    hits: tuple[SearchHit, ...]
    archived: tuple[Archived, ...] = ()
    unlikely: int = 0
    questions: tuple[SearchHit, ...] = ()
    over: int = 0


@operation("memory_search", reads=True, agents="memory", text=search_text)
def memory_search(
    access: WorkspaceAccess,
    query: Annotated[str, Arg("A question, or keywords", max_length=10_000)],
    limit: Annotated[int, Arg(ge=1, le=MAX_LIMIT)] = 8,
    origin: Origin | None = None,
    kind: Kind | None = None,
    session: Annotated[str | None, Arg(max_length=1_000)] = None,
    speaker: Annotated[str | None, Arg(max_length=1_000)] = None,
    since: Annotated[Moment | None, Arg("Only from this time on")] = None,
    until: Annotated[Moment | None, Arg("Only before then")] = None,
    as_of: Annotated[Moment | None, Arg("As known then")] = None,
    trust: Annotated[Trust | None, Arg("At least")] = None,
    all: Annotated[bool, Arg("Leave nothing out")] = False,
    archived: Annotated[bool, Arg("Also what left sessions and was not kept")] = False,
    explain: Annotated[bool, Arg("With the reasons why each result stands where it does", owner=True)] = False,
    look: Annotated[bool, Arg("Record nothing: a person looks, no agent uses what is found", owner=True)] = False,
    agent: Annotated[
        str, Arg("Which agent asks: what it does not find becomes its open question", owner=True, max_length=100)
    ] = "",
) -> SearchReply:
    """Search long-term memory for what is likely to answer.

    Use before answering about the past, or with a pointer's keywords.
    """
    filters = Filters(origin, kind, session, speaker, since, min(filter(None, (until, as_of)), default=None), trust)

    def found(store: Store, findings: Findings) -> SearchReply:
        reasons = signals_of(store, findings, utc_now(), as_of) if explain else ()
        left = _archived(store, query, limit, filters, findings) if archived else ()
        redacted = store.config.redaction.of
        hits = tuple(_recalled(hit, why, redacted) for hit, why in zip_longest(findings.hits, reasons))
        asking = tuple(_recalled(hit, None, redacted) for hit in findings.questions)
        return SearchReply(query, findings.good, findings.arms, hits, left, findings.unlikely, asking, findings.over)

    # While another process holds the workspace, or the disk is full, it is only read: a note of this minute may be
    # missed then.
    try:
        with access.write() as store:
            asks = None if look else agent
            return found(store, recall(store, query, limit, filters, everything=all, agent=asks))
    except (BusyError, ReadOnlyError, FullError, sqlite3.OperationalError) as error:
        why = explained(error, access.workspace.database) if isinstance(error, sqlite3.Error) else error
        if not isinstance(why, BusyError | ReadOnlyError | FullError):
            raise
        with access.read() as store:
            store.notices.add(f"searched as it stands: {why}")
            return found(store, search(store, query, limit, filters, everything=all))


def recall(
    store: Store,
    query: str,
    limit: int = 8,
    filters: Filters = _NO_FILTERS,
    *,
    everything: bool = False,
    agent: str | None = "",
) -> Findings:
    """Absorb pending notes, search, and record hits and misses. `agent` names who asks; None: the owner looks.

    For the owner nothing is recorded, as no agent uses the results. Otherwise, each hit with at least half the best
    score counts as an access; an agent's query without an answer becomes its open question; a query that is a
    pointer's keywords counts as a use of that pointer.
    """
    now, vectors = utc_now(), store.crystals.vectors
    absorb_notes(store, now)
    if (embedder := embedder_of(store)) is not None:
        # After a large ingestion, embed only the newest; words find the rest for now.
        vectors.embed_pending(embedder, _NEWEST if vectors.waiting()[0] > BATCH else BATCH)
        tell(store)
    findings = search(store, query, limit, filters, everything=everything)
    if agent is None:
        return findings
    keywords = " ".join(query.split()).strip("`")
    store.lineage.use_pointer(keywords)
    if findings.good:
        enough = findings.hits[0].score * _COUNTED_SHARE if findings.hits else 0.0
        store.crystals.touch([hit.crystal.id for hit in findings.hits if hit.score >= enough], now)
    elif agent and filters == _NO_FILTERS and (gap := gap_of_search(store.config.redaction.of(keywords))) is not None:
        Questions(store.connection).raise_(gap, Cause.MISS, now)
    return findings


def search(
    store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS, *, everything: bool = False
) -> Findings:
    """Search without writing anything, so without holding the workspace's lock."""
    now = utc_now()
    levels = Feelings(store.connection, store.config.baselines).levels(now)
    return searcher_of(store).search(query, now, limit=limit, filters=filters, hormones=levels, everything=everything)


def _archived(store: Store, query: str, limit: int, filters: Filters, findings: Findings) -> tuple[Archived, ...]:
    """Return matches in the sessions' archive that are not among the found crystals."""
    now, known = utc_now(), {hit.crystal.text for hit in findings.hits}
    feelings = Feelings(store.connection, store.config.baselines)
    return tuple(
        Archived(
            id=item.id,
            session=item.session_id,
            text=text,
            trust=trust_of(item).value,
            age_days=max(0.0, (now - item.created_at).total_seconds() / 86_400),
            created_at=item.created_at,
            importance=item.importance,
        )
        for item in left_behind(store.connection, feelings, query, limit, filters, now)
        if (text := store.config.redaction.of(item.content)) not in known
    )


def _recalled(hit: Hit, signals: SearchSignals | None, redacted: Callable[[str], str]) -> SearchHit:
    crystal = hit.crystal
    return SearchHit(
        id=crystal.id,
        text=crystal.text,
        score=hit.score,
        origin=crystal.origin.value,
        kind=crystal.kind.value,
        trust=crystal.trust.value,
        provenance=str(crystal.source) if crystal.source else "",
        age_days=hit.age_days,
        created_at=crystal.created_at,
        importance=crystal.importance,
        context=crystal.context,
        speaker=crystal.speaker,
        session=crystal.session,
        superseded_by=hit.superseded_by.text if hit.superseded_by else "",
        superseded_at=hit.superseded_by.created_at if hit.superseded_by else None,
        line=hit.line,
        formerly=tuple(FormerWording(redacted(one.text), one.at, one.is_draft) for one in hit.former),
        later=Later(hit.later.text, hit.later.created_at, hit.later.id) if hit.later else None,
        signals=signals,
    )


@dataclass(frozen=True, slots=True)
class BootstrapReply:
    """What an agent reads at session start; `text` has all parts as Markdown. `left_out` counts older pending notes.

    `more`: there are even older ones, which were not read. `everywhere`: the global workspace's text for every
    project; `attention`: a line about what awaits a person.
    """

    text: str
    memory: str
    notes: tuple[str, ...]
    left_out: int
    truncated: bool
    more: bool = False
    everywhere: str = ""
    attention: str = ""


@operation("memory_bootstrap", reads=True, agents="memory", text=bootstrap_text)
def memory_bootstrap(
    access: WorkspaceAccess,
    context_window: Annotated[
        int | None, Arg("Tokens of the reading model; else dream.context_window of the configuration", ge=1)
    ] = None,
    receipt: Annotated[
        Literal["HTTP", "MCP", "none"],
        Arg("How an agent gets it; none: no agent does", owner=True),
    ] = "HTTP",
    agent: Annotated[str, Arg("Which agent it is, for the receipt", owner=True, max_length=100)] = "",
) -> BootstrapReply:
    """Return working memory and the newest notes. Read once, at session start."""
    window, now = context_window or access.config.dream.context_window, utc_now()
    given = session_start(access.workspace, window, None, access.config.redaction, now, zone=access.config.zone)
    access.notices.extend(given.notices)
    ready = given.ready
    if receipt != "none":
        try:
            leave_receipt(access.workspace, ready, budget_for(window), now, receipt, agent=agent_called(agent))
        except DreamdError as error:  # the agent gets its memory all the same
            access.notices.append(f"that this was given is not noted: {error}")
    return BootstrapReply(ready.text, *ready[:7])


@dataclass(frozen=True, slots=True)
class WhyReply:
    """The stories of at most five matching lines, current ones first."""

    lines: tuple[LineStory, ...]


@operation("memory_why", reads=True, agents="memory", text=why_text)
def memory_why(
    access: WorkspaceAccess,
    text: Annotated[str, Arg("Words of the line, or its id such as L12", min_length=1, max_length=10_000)],
) -> WhyReply:
    """Say where a line of MEMORY.md comes from: dream, operation, evidence. Use when you doubt it."""
    with access.read() as store:
        return WhyReply(story_of_line(store, text))


@operation("memory_why_not", reads=True, text=why_not_text)
def memory_why_not(
    access: WorkspaceAccess,
    text: Annotated[str, Arg("Words of it, or the id of its line such as L12", min_length=1, max_length=10_000)],
    session: Annotated[str, Arg("As its agent calls it; else the last bootstrap", max_length=1_000)] = "",
) -> Answer:
    """Say why a thing was not in what an agent was last given, and what to do about it."""
    with access.read() as store:
        return why_not(store, text, session)
