"""Asking what is remembered: the search, the bootstrap, MEMORY.md itself, and where a line comes from."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pydantic import AwareDatetime, Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Nothing, Operation, Request
from daemon.api.provenance import LineHistory, why
from daemon.api.search import look, recall
from daemon.sessions.promotion import trust_of
from daemon.sessions.recall import left_behind
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store, utc_now
from state.bootstrap import Bootstrap, bootstrap
from state.crystals.crystal import Kind, Origin
from state.errors import BusyError, ForeignError
from state.search.ranking import Filters, Findings, Hit
from state.stores.database.tombstones import tombstones_in
from state.stores.disk.disk import Disk
from state.stores.history.segments import Segments
from state.trust import Trust

MAX_LIMIT = 1_000


class Search(Request):
    """A question to the long-term memory, and among which crystals: only of this origin, kind, session or speaker."""

    query: str = Field(max_length=10_000, description="A question or keywords, such as those of a crystal pointer")
    limit: int = Field(default=8, ge=1, le=MAX_LIMIT)
    origin: Origin | None = None
    kind: Kind | None = None
    session: str | None = Field(default=None, max_length=1_000)
    speaker: str | None = Field(default=None, max_length=1_000)
    since: AwareDatetime | None = Field(default=None, description="Only from this time on")
    until: AwareDatetime | None = Field(default=None, description="Only before this time")
    trust: Trust | None = Field(default=None, description="At least so trusted")
    archived: bool = Field(default=False, description="Also what left sessions and was not kept")

    @property
    def filters(self) -> Filters:
        """What may be returned."""
        return Filters(self.origin, self.kind, self.session, self.speaker, self.since, self.until, self.trust)


@dataclass(frozen=True, slots=True)
class Recalled:
    """One result. `score` in [0, 1]; `provenance` is file:lines@hash, empty when it came from no file."""

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
    hits: tuple[Recalled, ...]
    archived: tuple[Archived, ...] = ()


def _search(desk: WorkspaceAccess, asked: Search) -> SearchReply:
    """While another process holds the workspace it is only read: a note of this minute may be missed then."""
    try:
        with desk.store() as store:
            found = recall(store, asked.query, asked.limit, asked.filters)
            left = _archived(desk, store, asked, found)
    except (BusyError, ForeignError) as why:
        with desk.reading() as store:
            store.notice(f"searched as it stands: {why}")
            found = look(store, asked.query, asked.limit, asked.filters)
            left = _archived(desk, store, asked, found)
    if desk.workspace.foreign:  # it says of itself what it likes
        hits = [replace(hit, crystal=replace(hit.crystal, trust=Trust.WEB)) for hit in found.hits]
        found = replace(found, hits=tuple(hits))
    return SearchReply(asked.query, found.good, found.arms, tuple(_recalled(hit) for hit in found.hits), left)


def _archived(desk: WorkspaceAccess, store: Store, asked: Search, found: Findings) -> tuple[Archived, ...]:
    """Of the archive, what is not among the crystals that were found."""
    now, known = utc_now(), {hit.crystal.text for hit in found.hits}
    left = left_behind(store, asked.query, asked.limit, asked.filters, now) if asked.archived else ()
    return tuple(
        Archived(
            id=item.id,
            session=item.session,
            text=text,
            trust=Trust.WEB.value if desk.workspace.foreign else trust_of(item).value,
            age_days=max(0.0, (now - item.created_at).total_seconds() / 86_400),
            created_at=item.created_at,
            importance=item.importance,
        )
        for item in left
        if (text := redacted(store, item.content)) not in known
    )


def _recalled(hit: Hit) -> Recalled:
    crystal = hit.crystal
    return Recalled(
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
    )


SEARCH = Operation(
    name="memory_search",
    method="POST",
    path="/search",
    summary="Search the long-term memory by meaning and by words. Use it before you answer from memory, and with the "
    "keywords of a crystal pointer.",
    request=Search,
    reply=SearchReply,
    run=_search,
    reads=True,
)


class Read(Request):
    """For which reader."""

    context_window: int | None = Field(
        default=None, ge=1, description="Tokens of the reading model; else dream.context_window of the configuration"
    )


@dataclass(frozen=True, slots=True)
class BootstrapReply:
    """What an agent reads at session start: `text` is both parts as Markdown. `left_out`: older pending notes."""

    text: str
    memory: str
    notes: tuple[str, ...]
    left_out: int
    truncated: bool


def _bootstrap(desk: WorkspaceAccess, asked: Read) -> BootstrapReply:
    window = asked.context_window or desk.config.dream.context_window
    notes, redaction = Segments(desk.workspace).each_pending(), desk.config.secrets.redaction
    unforgotten = tombstones_in(desk.workspace.database).without
    return _waking(bootstrap(_memory(desk), notes, window, redaction=redaction, shown_of=unforgotten))


def _waking(ready: Bootstrap) -> BootstrapReply:
    return BootstrapReply(ready.text, ready.memory, ready.notes, ready.left_out, ready.truncated)


def _memory(desk: WorkspaceAccess) -> str:
    content = Disk(desk.workspace.root).read_if_there(desk.workspace.document) or b""
    return content.decode(errors="replace")


BOOTSTRAP = Operation(
    name="memory_bootstrap",
    method="GET",
    path="/bootstrap",
    summary="What to read at the start of a session: MEMORY.md within its budget, then the notes no dream has folded "
    "in yet.",
    request=Read,
    reply=BootstrapReply,
    run=_bootstrap,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """MEMORY.md as it stands, without secrets. `version` is the last committed one; 0 before the first."""

    text: str
    version: int
    read_at: datetime


def _state(desk: WorkspaceAccess, _: Nothing) -> Memory:
    with desk.reading() as store:
        # A model may ask for it, and what the owner wrote by hand nobody has redacted.
        text = desk.config.secrets.redaction.of(_memory(desk))
        return Memory(text, store.lineage.last_version(), datetime.now(UTC))


STATE = Operation(
    name="memory_state",
    method="GET",
    path="/state",
    summary="MEMORY.md as it stands, and its version.",
    request=Nothing,
    reply=Memory,
    run=_state,
)


class Why(Request):
    """A line of MEMORY.md, present or past."""

    text: str = Field(min_length=1, max_length=10_000, description="Words of the line, or its id such as L12")


@dataclass(frozen=True, slots=True)
class WhyReply:
    """The lines that are meant, standing ones first, at most five, each from its writing to its end."""

    lines: tuple[LineHistory, ...]


def _why(desk: WorkspaceAccess, asked: Why) -> WhyReply:
    with desk.reading() as store:
        return WhyReply(why(store, asked.text))


WHY = Operation(
    name="memory_why",
    method="GET",
    path="/why",
    summary="Where a line of MEMORY.md comes from: dream, operation, evidence, file and lines.",
    request=Why,
    reply=WhyReply,
    run=_why,
)
