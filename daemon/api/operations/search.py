"""Operations that read the memory: search, bootstrap, MEMORY.md, where a line comes from, why a thing was missed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Nothing, Request, operation
from daemon.api.provenance import LineHistory, why
from daemon.api.reasons import SearchSignals, signals_of
from daemon.api.search import look, recall, search
from daemon.api.why_not import Answer, why_not
from daemon.sessions.promotion import trust_of
from daemon.sessions.read import left_behind
from daemon.workspace.document import read_document
from daemon.workspace.redaction import redacted
from daemon.workspace.session_start import session
from daemon.workspace.stores import Store, utc_now
from state.agents import agent_called
from state.bootstrap import Bootstrap, budget_for
from state.crystals.crystal import Kind, Origin
from state.errors import BusyError, DreamdError, ReadOnlyError
from state.search.ranking import Filters, Findings, Hit
from state.stores.history.bootstraps import KEPT, BootstrapReceipt, leave_receipt, receipt_of, receipts
from state.trust import Trust

MAX_LIMIT = 1_000


class Search(Request):
    """A question to the long-term memory, and among which crystals: only of this origin, kind, session or speaker."""

    query: str = Field(max_length=10_000, description="A question, or keywords of a pointer")
    limit: int = Field(default=8, ge=1, le=MAX_LIMIT)
    origin: Origin | None = None
    kind: Kind | None = None
    session: str | None = Field(default=None, max_length=1_000)
    speaker: str | None = Field(default=None, max_length=1_000)
    since: AwareDatetime | None = Field(default=None, description="Only from this time on")
    until: AwareDatetime | None = Field(default=None, description="Only before then")
    as_of: AwareDatetime | None = Field(default=None, description="As known then")
    trust: Trust | None = Field(default=None, description="At least")
    archived: bool = Field(default=False, description="Also what left sessions and was not kept")
    explain: bool = Field(default=False, description="With the reasons why each result stands where it does")
    look: bool = Field(default=False, description="Record nothing of it: a person looks, no agent uses what is found")
    agent: str = Field(
        default="", max_length=100, description="Which agent asks: what it does not find becomes its open question"
    )

    @property
    def filters(self) -> Filters:
        """What may be returned."""
        until = min(filter(None, (self.until, self.as_of)), default=None)
        return Filters(self.origin, self.kind, self.session, self.speaker, self.since, until, self.trust)


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


@operation("memory_search", "/search", reads=True)
def memory_search(access: WorkspaceAccess, request: Search) -> SearchReply:
    """Search the long-term memory by meaning and by words.

    Use it before you answer from memory, and with the keywords of a crystal pointer.
    """
    # While another process holds the workspace it is only read: a note of this minute may be missed then.
    try:
        with access.write() as store:
            asked = (store, request.query, request.limit, request.filters)
            findings = look(*asked) if request.look else recall(*asked, agent=request.agent)
            left = _archived(store, request, findings)
            reasons = _reasons(store, request, findings)
    except (BusyError, ReadOnlyError) as why:
        with access.read() as store:
            store.notice(f"searched as it stands: {why}")
            findings = search(store, request.query, request.limit, request.filters)
            left = _archived(store, request, findings)
            reasons = _reasons(store, request, findings)
    recalled = tuple(_recalled(hit, why) for hit, why in zip(findings.hits, reasons, strict=True))
    return SearchReply(request.query, findings.good, findings.arms, recalled, left)


def _reasons(store: Store, request: Search, findings: Findings) -> Sequence[SearchSignals | None]:
    """Say of each hit why it stands where it does; None without `explain`."""
    if not request.explain:
        return [None] * len(findings.hits)
    return signals_of(store, findings, utc_now(), request.as_of)


def _archived(store: Store, request: Search, findings: Findings) -> tuple[Archived, ...]:
    """Return of the archive what is not among the crystals that were found."""
    now, known = utc_now(), {hit.crystal.text for hit in findings.hits}
    left = left_behind(store, request.query, request.limit, request.filters, now) if request.archived else ()
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
        for item in left
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


class BootstrapRequest(Request):
    """For which reader."""

    context_window: int | None = Field(
        default=None, ge=1, description="Tokens of the reading model; else dream.context_window of the configuration"
    )
    receipt: Literal["HTTP", "MCP", "none"] = Field(
        default="HTTP", description="How an agent gets it, for the receipt; none: no agent gets it"
    )
    agent: str = Field(default="", max_length=100, description="Which agent it is, for the receipt")


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


@operation("memory_bootstrap", "/bootstrap", method="GET")
def memory_bootstrap(access: WorkspaceAccess, request: BootstrapRequest) -> BootstrapReply:
    """Return what to read at the start of a session: MEMORY.md in its budget, then notes no dream has folded in yet."""  # noqa: E501 - one line of prose
    ready = given(access, request)
    if request.receipt != "none":
        budget, agent = budget_for(_window(access, request)), agent_called(request.agent)
        try:
            leave_receipt(access.workspace, ready, budget, utc_now(), request.receipt, agent=agent)
        except DreamdError as error:  # the agent gets its memory all the same
            access.notices.append(f"that this was given is not noted: {error}")
    return bootstrap_reply(ready)


def given(access: WorkspaceAccess, request: BootstrapRequest) -> Bootstrap:
    """Return what an agent is given that asks so; what a person should know of it is among the notices."""
    found = session(access.workspace, _window(access, request), None, access.config.secrets.redaction, utc_now())
    access.notices.extend(found.notices)
    return found.ready


def given_receipt(access: WorkspaceAccess, request: BootstrapRequest, ready: Bootstrap) -> BootstrapReceipt | None:
    """Return the receipt of that, to be kept outside of this workspace; None if no agent gets it."""
    if request.receipt == "none":
        return None
    budget, agent = budget_for(_window(access, request)), agent_called(request.agent)
    return receipt_of(ready, budget, utc_now(), request.receipt, agent=agent)


def _window(access: WorkspaceAccess, request: BootstrapRequest) -> int:
    return request.context_window or access.config.dream.context_window


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


class BootstrapsRequest(Request):
    """How many."""

    limit: int = Field(default=20, ge=1, le=KEPT)


@dataclass(frozen=True, slots=True)
class Bootstraps:
    """The last times that an agent was given the memory, the newest first. `more`: so many older ones are known."""

    receipts: tuple[BootstrapReceipt, ...]
    more: int


@operation("bootstraps", "/bootstraps", method="GET")
def last_bootstraps(access: WorkspaceAccess, request: BootstrapsRequest) -> Bootstraps:
    """Return what agents were last given at session start, and when; none of its words."""
    every = tuple(receipts(access.workspace))
    return Bootstraps(every[: request.limit], len(every[request.limit :]))


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """MEMORY.md as it stands, without secrets. `version` is the last committed one; 0 before the first."""

    text: str
    version: int
    read_at: datetime


@operation("memory_state", "/state", method="GET")
def memory_state(access: WorkspaceAccess, _: Nothing) -> MemoryDocument:
    """Return MEMORY.md as it stands, and its version."""
    with access.read() as store:
        # A model may ask for it, and what the owner wrote by hand nobody has redacted.
        text = access.config.secrets.redaction.of(read_document(store)[0])
        return MemoryDocument(text, store.lineage.last_version(), utc_now())


class Why(Request):
    """A line of MEMORY.md, present or past."""

    text: str = Field(min_length=1, max_length=10_000, description="Words of the line, or its id such as L12")


@dataclass(frozen=True, slots=True)
class WhyReply:
    """The lines that are meant, standing ones first, at most five, each from its writing to its end."""

    lines: tuple[LineHistory, ...]


@operation("memory_why", "/why", method="GET")
def memory_why(access: WorkspaceAccess, request: Why) -> WhyReply:
    """Say where a line of MEMORY.md comes from: dream, operation, evidence, file and lines."""
    with access.read() as store:
        return WhyReply(why(store, request.text))


class WhyNot(Request):
    """What an agent missed, and in which session."""

    text: str = Field(min_length=1, max_length=10_000, description="Words of it, or the id of its line such as L12")
    session: str = Field(default="", max_length=1_000, description="As its agent calls it; else the last bootstrap")


@operation("memory_why_not", "/why-not", method="GET")
def memory_why_not(access: WorkspaceAccess, request: WhyNot) -> Answer:
    """Say why a thing was not in what an agent was last given, and what to do about it."""
    with access.read() as store:
        return why_not(store, request.text, request.session)
