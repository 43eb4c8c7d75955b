"""Operations that read the memory: search, bootstrap, MEMORY.md, where a line comes from, why a thing was missed."""

from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Annotated, Literal

from pydantic import AwareDatetime

from daemon.api import search as searches
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.text import bootstrap_text, search_text, why_not_text, why_text
from daemon.explain.reasons import SearchSignals, signals_of
from daemon.explain.why import LineHistory, why
from daemon.explain.why_not import Answer, why_not
from daemon.sessions import left_behind
from daemon.sessions.crystals import trust_of
from daemon.workspace.document import read_document
from daemon.workspace.redaction import redacted
from daemon.workspace.session_start import session as session_start
from daemon.workspace.stores import Store, utc_now
from state.agents import agent_called
from state.bootstrap import Bootstrap, budget_for
from state.crystals.crystal import Kind, Origin
from state.errors import BusyError, DreamdError, ReadOnlyError
from state.search.ranking import Filters, Findings, Hit
from state.stores.history.bootstraps import KEPT, BootstrapReceipt, leave_receipt, receipt_of, receipts
from state.trust import Trust

MAX_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result. `score` in [0, 1]; `provenance` is file:lines@hash, empty when it came from no file.

    `superseded_by` is the text of a newer result that gives the same subject another value, said at `superseded_at`.
    `signals`: why it stands where it does, if that was asked for.
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
    signals: SearchSignals | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """A memory that left its session and was not kept; memory_restore puts it back. It is found by its words."""

    id: str
    session: str
    text: str
    trust: str
    age_days: float
    created_at: datetime
    importance: float


@dataclass(frozen=True, slots=True)
class SearchReply:
    """What a search found, best first.

    `good`: something answers the query well. `arms`: "lexical", and "dense" when meaning was compared too.
    `archived`: what the sessions' archive has, if that was asked for.
    """

    query: str
    good: bool
    arms: tuple[str, ...]
    hits: tuple[SearchHit, ...]
    archived: tuple[Archived, ...] = ()


@operation("memory_search", reads=True, agents="memory", text=search_text)
def memory_search(
    access: WorkspaceAccess,
    query: Annotated[str, Arg("A question, or keywords of a pointer", max_length=10_000)],
    limit: Annotated[int, Arg(ge=1, le=MAX_LIMIT)] = 8,
    origin: Origin | None = None,
    kind: Kind | None = None,
    session: Annotated[str | None, Arg(max_length=1_000)] = None,
    speaker: Annotated[str | None, Arg(max_length=1_000)] = None,
    since: Annotated[AwareDatetime | None, Arg("Only from this time on")] = None,
    until: Annotated[AwareDatetime | None, Arg("Only before then")] = None,
    as_of: Annotated[AwareDatetime | None, Arg("As known then")] = None,
    trust: Annotated[Trust | None, Arg("At least")] = None,
    archived: Annotated[bool, Arg("Also what left sessions and was not kept")] = False,
    explain: Annotated[bool, Arg("With the reasons why each result stands where it does", owner=True)] = False,
    look: Annotated[bool, Arg("Record nothing: a person looks, no agent uses what is found", owner=True)] = False,
    agent: Annotated[
        str, Arg("Which agent asks: what it does not find becomes its open question", owner=True, max_length=100)
    ] = "",
) -> SearchReply:
    """Search long-term memory by meaning and words.

    Use before answering about the past, and with a crystal pointer's keywords.
    """
    filters = Filters(origin, kind, session, speaker, since, min(filter(None, (until, as_of)), default=None), trust)
    # While another process holds the workspace it is only read: a note of this minute may be missed then.
    try:
        with access.write() as store:
            asked = (store, query, limit, filters)
            findings = searches.look(*asked) if look else searches.recall(*asked, agent=agent)
            left = _archived(*asked, findings) if archived else ()
            reasons = signals_of(store, findings, utc_now(), as_of) if explain else ()
    except (BusyError, ReadOnlyError) as why:
        with access.read() as store:
            store.notice(f"searched as it stands: {why}")
            asked = (store, query, limit, filters)
            findings = searches.search(*asked)
            left = _archived(*asked, findings) if archived else ()
            reasons = signals_of(store, findings, utc_now(), as_of) if explain else ()
    hits = tuple(_recalled(hit, why) for hit, why in zip_longest(findings.hits, reasons))
    return SearchReply(query, findings.good, findings.arms, hits, left)


def _archived(store: Store, query: str, limit: int, filters: Filters, findings: Findings) -> tuple[Archived, ...]:
    """Return of the archive what is not among the crystals that were found."""
    now, known = utc_now(), {hit.crystal.text for hit in findings.hits}
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
        for item in left_behind(store, query, limit, filters, now)
        if (text := redacted(store, item.content)) not in known
    )


def _recalled(hit: Hit, signals: SearchSignals | None) -> SearchHit:
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
        signals=signals,
    )


@dataclass(frozen=True, slots=True)
class BootstrapReply:
    """What an agent reads at session start: `text` is all parts as Markdown. `left_out`: older pending notes.

    `more`: there are even older ones, which were not read. `everywhere`: what the global workspace says in every
    project; `attention`: a line about what waits for a person.
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
    ready = given(access, context_window)
    if receipt != "none":
        budget = budget_for(_window(access, context_window))
        try:
            leave_receipt(access.workspace, ready, budget, utc_now(), receipt, agent=agent_called(agent))
        except DreamdError as error:  # the agent gets its memory all the same
            access.notices.append(f"that this was given is not noted: {error}")
    return bootstrap_reply(ready)


def given(access: WorkspaceAccess, context_window: int | None) -> Bootstrap:
    """Return what an agent is given that asks so; what a person should know of it is among the notices."""
    window, redaction = _window(access, context_window), access.config.secrets.redaction
    found = session_start(access.workspace, window, None, redaction, utc_now())
    access.notices.extend(found.notices)
    return found.ready


def given_receipt(
    access: WorkspaceAccess, ready: Bootstrap, context_window: int | None, receipt: str, agent: str
) -> BootstrapReceipt | None:
    """Return the receipt of that, to be kept outside of this workspace; None if no agent gets it."""
    if receipt == "none":
        return None
    budget = budget_for(_window(access, context_window))
    return receipt_of(ready, budget, utc_now(), receipt, agent=agent_called(agent))


def _window(access: WorkspaceAccess, context_window: int | None) -> int:
    return context_window or access.config.dream.context_window


def bootstrap_reply(ready: Bootstrap) -> BootstrapReply:
    """Return the reply to who asked for it."""
    return BootstrapReply(
        ready.text,
        ready.memory,
        ready.notes,
        ready.left_out,
        ready.truncated,
        ready.more,
        ready.everywhere,
        ready.attention,
    )


@dataclass(frozen=True, slots=True)
class Bootstraps:
    """The last times that an agent was given the memory, the newest first. `more`: so many older ones are known."""

    receipts: tuple[BootstrapReceipt, ...]
    more: int


@operation("bootstraps", reads=True)
def last_bootstraps(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg(ge=1, le=KEPT)] = 20,
) -> Bootstraps:
    """Return what agents were last given at session start, and when; none of its words."""
    every = tuple(receipts(access.workspace))
    return Bootstraps(every[:limit], len(every[limit:]))


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """MEMORY.md as it stands, without secrets. `version` is the last committed one; 0 before the first."""

    text: str
    version: int
    read_at: datetime


@operation("memory_state", reads=True)
def memory_state(access: WorkspaceAccess) -> MemoryDocument:
    """Return MEMORY.md as it stands, and its version."""
    with access.read() as store:
        # A model may ask for it, and what the owner wrote by hand nobody has redacted.
        text = access.config.secrets.redaction.of(read_document(store)[0])
        return MemoryDocument(text, store.lineage.last_version(), utc_now())


@dataclass(frozen=True, slots=True)
class WhyReply:
    """The lines that are meant, standing ones first, at most five, each from its writing to its end."""

    lines: tuple[LineHistory, ...]


@operation("memory_why", reads=True, agents="memory", text=why_text)
def memory_why(
    access: WorkspaceAccess,
    text: Annotated[str, Arg("Words of the line, or its id such as L12", min_length=1, max_length=10_000)],
) -> WhyReply:
    """Say where a line of MEMORY.md comes from: dream, operation, evidence. Use when you doubt it."""
    with access.read() as store:
        return WhyReply(why(store, text))


@operation("memory_why_not", reads=True, text=why_not_text)
def memory_why_not(
    access: WorkspaceAccess,
    text: Annotated[str, Arg("Words of it, or the id of its line such as L12", min_length=1, max_length=10_000)],
    session: Annotated[str, Arg("As its agent calls it; else the last bootstrap", max_length=1_000)] = "",
) -> Answer:
    """Say why a thing was not in what an agent was last given, and what to do about it."""
    with access.read() as store:
        return why_not(store, text, session)
