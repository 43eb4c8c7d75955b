"""Tables: what state.db holds, each table declared once.

A row class is a dataclass if callers read whole rows; otherwise they read values with some of its fields.
"""

import json
import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any

from state.codec import decode
from state.crystals import crystal
from state.crystals.supersession import Cause
from state.document.document import Edit
from state.document.operations import Action, Operation, Why
from state.document.sections import SectionName
from state.dream import Dream
from state.sessions.item import WEIGHTS, Related, State
from state.signals import curiosity
from state.stores.database.table import (
    OWN,
    PACKED,
    PRIMARY,
    Code,
    Column,
    Declared,
    Key,
    One,
    Rule,
    Sql,
    Table,
)
from state.trust import Trust

# Prefix of a digest that matches no text, for what a forgetting left of a crystal if another has the same text.
REST = "rest-"
_ROUNDED = 0.01  # how much float16 may change the length of a vector
_UNDREAMT = "WHERE state = 'archived' AND dreamt_in IS NULL AND promoted_to_id IS NULL"
_CRYSTAL = Sql("REFERENCES crystals (key) ON DELETE CASCADE")


def _one_of(members: Iterable[str]) -> Rule:
    return {str(member) for member in members}.__contains__


def _is_dream(text: str) -> bool:
    return isinstance(decode(Dream, text), Dream)


def _is_vector(vector: bytes) -> bool:
    """Return whether this is a vector of length one, in float16."""
    return abs(math.hypot(*struct.unpack(f"<{len(vector) // 2}e", vector)) - 1) < _ROUNDED


class _MetaRow(Declared, table="meta"):
    """Single values by name (see `meta`)."""

    name: Annotated[str, OWN, PRIMARY]
    value: Code


class ForgottenRow(Declared, table="forgotten"):
    """Texts that must not be learnt again, as salted digests (the salt is in `meta`).

    `length` is the number of words that were digested, or another code (see `state.forgetting.known`).
    """

    digest: Annotated[str, OWN, PRIMARY]
    at: datetime
    length: int = 0
    mark: int = 0


class ForgettingRow(Declared, table="forgettings"):
    """Receipts of forgettings: how many words all texts had together, and how much went with them."""

    at: Annotated[datetime, PRIMARY]
    digest: Code
    words: int
    cut: Code


class SessionRow(Declared, table="sessions", indexes=("sessions_due (due_at) WHERE due_at IS NOT NULL",)):
    """Sessions. Ids are data; `step` is the last one given, `due_at` the next time that maintenance looks at it."""

    key: Key = 0
    id: Annotated[str, Sql("UNIQUE")]
    policy: Code
    config: Annotated[dict[str, Any], OWN]
    opened_at: datetime
    closed_at: datetime | None
    step: int = 0
    due_at: datetime | None


class ItemRow(Declared, table="items", indexes=(
    "items_held (session, seq, token_count) WHERE state IN ('live', 'hidden')",
    "items_archived (session, key) WHERE state = 'archived'",
    f"items_undreamt (rescue DESC, importance DESC, key) {_UNDREAMT}",
)):  # fmt: skip
    """Items of sessions, one row each, whatever happens to it. `key` is the session's key * 2^32 + seq."""

    key: Annotated[int, PRIMARY]
    session: Annotated[int, Sql("REFERENCES sessions (key)")]
    id: Annotated[str, Sql("UNIQUE")]  # it begins with the content
    seq: int
    content: str
    priority: Annotated[str, OWN, _one_of(WEIGHTS)]
    importance: float
    token_count: int
    created_at: datetime
    last_accessed_at: datetime
    expires_at: datetime | None
    importance_score: float
    access_count: int
    step_index: int
    agent_id: str
    source: str
    tags: tuple[str, ...]
    metadata: dict[str, str]
    relations: tuple[Related, ...]  # latest last
    state: State = State.LIVE
    state_reason: str = ""
    promoted_to_id: str | None
    promoted_at: datetime | None
    promotion_reason: Annotated[str | None, OWN]  # auto, manual
    record: dict[str, str]  # what promotion added to the metadata
    rescue: int = 0
    pairs: Code = ""  # of archived items: see `crystals`
    dreamt_in: int | None  # the version whose dream took it in; 0: no dream has to


class ItemEventRow(Declared, table="item_events", indexes=(
    "item_events_by_session (session, key)",
    "item_events_by_item (item, key) WHERE item IS NOT NULL",
)):  # fmt: skip
    """What happened to an item when and why, without its content. An event without an item is the session's."""

    key: Key = 0
    at: datetime
    session: int
    item: int | None
    action: Code
    reason: str = ""
    figures: dict[str, int | float | str]


class CrystalRow(Declared, table="crystals", indexes=(
    "crystals_by_kind (kind, key)",
    "crystals_by_session (session, position)",
    "crystals_by_speaker (speaker) WHERE speaker <> ''",
    "crystals_undreamt (importance DESC, key) WHERE dreamt_in IS NULL",
    "crystals_by_fading (fades_at) WHERE lifecycle NOT IN ('archived', 'frozen')",
    "crystals_by_survivor (merged_into) WHERE merged_into IS NOT NULL",
    # A covering index for all filters, so that no row is read just to test it.
    "crystals_by_time (created_at, origin, kind, trust, speaker)",
    "UNIQUE crystals_by_digest (digest)",
    "crystals_by_folded (folded)",
    "crystals_to_embed (vector) WHERE vector IS NULL",
    # Rows are long: what counts or compares all of them reads an index.
    "crystals_by_lifecycle (lifecycle)",
)):  # fmt: skip
    """Crystals. `key` is the row number that FTS5 and the queues use; `id` is random."""

    key: Key = 0
    id: Annotated[str, OWN, Sql("UNIQUE"), re.compile("[0-9a-f]{32}").fullmatch]
    text: Annotated[str, lambda text: bool(text.strip())]
    context: str = ""
    pairs: Code = ""  # character pairs of unspaced scripts, which FTS5's tokenizer cannot cut
    speaker: str = ""
    origin: crystal.Origin
    kind: crystal.Kind
    importance: float
    trust: Trust
    session: str = ""
    position: int = 0
    lifecycle: crystal.Lifecycle
    accesses: int = 0
    created_at: datetime
    last_accessed_at: datetime | None
    valence: float = 0
    parents: Annotated[tuple[str, ...], OWN] = ()
    dreamt_in: int | None = None  # the version whose dream took it in; None: no dream has seen it yet
    fades_at: datetime | None = None  # when its strength falls below the threshold
    merged_into: Annotated[int | None, Sql("REFERENCES crystals (key) ON DELETE SET NULL")] = None
    heard: Annotated[Code, _one_of(["", Trust.TOOL, Trust.WEB])] = ""
    # Identifies the same crystal when it is met again (see REST).
    digest: Code = ""
    folded: Code  # one for all that say the same (see `folded_digest`)
    # Its embedding in float16, little-endian; None: it waits to be embedded. Last, so that other columns are read
    # without it.
    vector: Annotated[bytes | None, _is_vector] = None


class OccurrenceRow(
    Declared, table="occurrences", key="crystal, session, position, file, first_line",
    indexes=("occurrences_by_session (session, position)",),
):  # fmt: skip
    """Every place where a crystal's text occurred: exact duplicates are one crystal with several occurrences."""

    crystal: Annotated[int, _CRYSTAL]
    session: str
    position: int
    at: datetime
    file: Code = ""
    first_line: int = 0
    last_line: int = 0
    digest: Code = ""


class SupersessionRow(Declared, table="supersessions", key="older, newer", indexes=(
    "supersessions_by_newer (newer)",
    "supersessions_by_version (version) WHERE version IS NOT NULL",
)):  # fmt: skip
    """Pairs of crystals, the newer of which replaces the older one's value."""

    older: Annotated[int, _CRYSTAL]
    newer: Annotated[int, _CRYSTAL]
    trust: Trust  # whose word it is
    cause: Cause
    version: int | None  # the version whose dream found it
    at: datetime
    undone_at: datetime | None = None  # when the owner took it back, so that it is not found again


class _ToIndex(Declared, table="to_index"):
    """Crystals that ChromaDB may hold differently: new, changed and deleted ones. Triggers add a row per change."""

    key: Key = 0
    id: Code


class IndexStateRow(Declared, table="index_state"):
    """Which folder is ChromaDB's (`build`; "": none). Its files may be torn unless they bear this `stamp`."""

    one: One = 1
    build: Code = ""
    stamp: Code = ""


class WatermarkRow(Declared, table="watermarks"):
    """How far each transcript has been read."""

    file: Annotated[str, OWN, PRIMARY]
    size: int  # with the time: an unchanged file is not opened; of a stranger's file -2 minus its size
    mtime_ns: int
    record: Annotated[str, lambda text: isinstance(json.loads(text), dict)]


@dataclass(frozen=True, kw_only=True)
class UnreadRow(Declared, table="unread_transcripts", indexes=("UNIQUE unread_by_file (file)",)):
    """Why a transcript could not be read when it was last looked at; `at` is the time of a part that was skipped."""

    number: Key = 0
    file: str
    at: datetime | None
    why: str


class FeelingRow(Declared, table="feelings", indexes=("feelings_by_time (at)",)):
    """Hormone events, with the levels right after each."""

    key: Key = 0
    at: datetime
    event: Code
    cause: str = ""
    dopamine: float
    cortisol: float
    oxytocin: float


class GapRow(Declared, table="gaps", indexes=("gaps_by_time (last_at)",)):
    """Open questions: explicit ones, and searches that found nothing good. `dismissed` ones are not shown."""

    folded: Annotated[str, PRIMARY]
    question: str
    cause: curiosity.Cause
    times: int = 1
    first_at: datetime
    last_at: datetime
    dismissed: bool = False


class VersionRow(Declared, table="versions", indexes=(
    "versions_by_dream (dream) WHERE dream <> ''", "versions_by_time (at)",
)):  # fmt: skip
    """Committed versions of MEMORY.md."""

    number: Annotated[int, PRIMARY]
    at: datetime
    cause: Code
    dream: Code = ""
    reason: Code = ""
    digest: Code  # SHA-256 of the text
    former_digests: Code = ""  # of the text as it was before something of it was forgotten
    characters: int
    model: Code = ""
    calls: int = 0
    tokens: int = 0
    usd: float = 0
    seconds: float = 0
    added: int = 0
    revised: int = 0
    recalled: int = 0
    evicted: int = 0
    closed: int = 0
    asked: int = 0
    sections: Annotated[Code, lambda text: isinstance(json.loads(text), dict)] = "{}"  # how many lines each has
    notes: int = 0
    text: Annotated[str, PACKED] = ""  # empty: it is no longer kept
    # The dream, without texts and crystals.
    record: Annotated[str, PACKED, lambda text: not text or _is_dream(text)] = ""


@dataclass(frozen=True, kw_only=True)
class Document(Declared, table="document"):
    """The last known text of MEMORY.md and the text that it is to have.

    `version` wrote the wanted text; `edits` turn one text into the other; scratch.md may still show `consumed` notes.
    """

    one: One = 1
    rendered: str
    wanted: str
    edits: tuple[Edit, ...]
    swap: int
    version: int
    consumed: int = 0


class NoteRow(
    Declared,
    table="notes",
    indexes=(
        "notes_pending (key) WHERE consumed_in IS NULL",
        "notes_by_crystal (crystal)",
        "notes_by_version (consumed_in) WHERE consumed_in IS NOT NULL",
    ),
):
    """Notes, in the order in which they arrived."""

    key: Key = 0
    at: datetime
    importance: float
    auto: bool
    replaces: str
    digest: Annotated[str, OWN, Sql("UNIQUE")]  # of its entry; recognises the note in another file
    crystal: Annotated[int, _CRYSTAL]  # holds its text
    filed: bool  # whether its entry is in the inbox
    consumed_in: int | None = None  # the version that took it in; None: it is pending


class MarkRow(Declared, table="marks", key="end, digest"):
    """How far note files were read. A file matches if its first `end` bytes end in bytes with this digest."""

    end: int
    digest: Code
    start: int  # where the last note in these bytes begins
    note: int  # the row of that note


class LineRow(Declared, table="lines", indexes=(
    "lines_by_birth (born_in)",
    "lines_by_death (died_in)",
    "lines_by_successor (successor) WHERE successor <> ''",
    "lines_by_crystal (crystal)",
)):  # fmt: skip
    """The life of each line of MEMORY.md."""

    id: Annotated[str, OWN, PRIMARY]
    section: SectionName
    text: str
    crystal: Code  # that with its wording; empty for drafts, and for what code writes until it leaves
    importance: float
    trust: Trust
    born_in: int
    born_at: datetime
    died_in: int | None = None  # None: it is in MEMORY.md
    fate: Annotated[str, OWN, _one_of(["", *Why])] = ""
    successor: Code = ""  # the line that replaced it
    until: Annotated[Code, lambda text: not text or bool(date.fromisoformat(text))] = ""  # the last day it holds


class EvidenceRow(
    Declared, table="evidence", key="line, version, crystal", indexes=("evidence_by_crystal (crystal)",)
):
    """The crystals that a line rests on."""

    line: Code
    version: int
    crystal: Code


class PointerRow(Declared, table="pointers", indexes=(
    "pointers_by_line (line)",
    "pointers_standing (keywords) WHERE standing = 1",
    "pointers_by_crystal (crystal)",
)):  # fmt: skip
    """All pointers that were ever in MEMORY.md; `standing` says whether this one still is."""

    keywords: Annotated[str, PRIMARY]
    topic: str
    crystal: Code
    line: Code = ""
    made_in: int
    standing: bool = True
    uses: int = 0


@dataclass(frozen=True, kw_only=True)
class DeletedLine(Declared, table="tombstones"):
    """A line that the owner deleted from MEMORY.md; no dream writes it again."""

    text: Annotated[str, PRIMARY]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Run(Declared, table="dreams", indexes=("dreams_by_start (started_at)",)):
    """One dream's run. `outcome` is running, committed, skipped, rejected or failed."""

    id: Annotated[str, OWN, PRIMARY]
    started_at: datetime
    ended_at: datetime | None = None
    reason: Code
    outcome: Code = "running"
    detail: str = ""
    version: int | None = None
    times: int = 1  # consecutive skips for the same reason share one row


class StepRow(Declared, table="steps", key="dream, place", indexes=("steps_by_time (at)",)):
    """A finished step of a dream: `figures` say what it did; calls and tokens are those since the previous step."""

    dream: Code
    place: int
    node: Code
    at: datetime
    seconds: float
    calls: int
    tokens: int
    figures: str


class RejectionRow(Declared, table="rejections", indexes=("rejections_by_dream (dream)", "rejections_by_time (at)")):
    """What the guards refused, with figures."""

    key: Key = 0
    dream: Code
    at: datetime
    guard: Code
    scope: Code  # operation, section, dream
    figures: str


class CallRow(Declared, table="calls", indexes=(
    "calls_by_request (dream, digest)", "calls_by_time (at)", "calls_with_answer (at) WHERE reply <> ''",
)):  # fmt: skip
    """One paid try of a model. The request and the reply are emptied once they are too old.

    `reply` is the port's Answer as JSON, `usable` if it can be parsed; `request` holds the messages as JSON. Until it
    is answered, a row says the most that it may cost.
    """

    key: Key = 0
    dream: Code
    digest: Code  # SHA-256 of the request
    at: datetime
    model: Code
    usable: bool
    reply: str
    tokens: int
    usd: float
    request: str = ""


@dataclass(frozen=True, kw_only=True)
class Proposal(Declared, table="proposals", indexes=("proposals_by_dream (dream)",)):
    """A change that waits for its owner's yes since `at`, until it has an `answer`.

    `dream` proposed it; empty if several workspaces agree on the line.
    """

    number: Key = 0
    dream: Code
    at: datetime
    operation: Operation
    why: str = ""
    answer: Code = ""

    @property
    def is_agreement(self) -> bool:
        """Return whether it comes from agreement among several workspaces of its owner."""
        return not self.dream

    @property
    def is_erased(self) -> bool:
        """Return whether nothing is left to write, because its text was forgotten."""
        writes = self.operation.action not in (Action.EVICT, Action.CLOSE, Action.MOVE, Action.WEIGH)
        return writes and not self.operation.text.strip()


class _RefusedInput(Declared, table="refused_inputs", indexes=("refused_by_input (input)",)):
    """An input that a model left out of a dream: a row for each of the latest times."""

    number: Key = 0
    input: Code


class ShownRow(Declared, table="shown_inputs"):
    """How many characters of a long input dreams have shown, of how many; others are shown from their beginning."""

    crystal: Annotated[str, OWN, PRIMARY]
    characters: int
    length: int


@dataclass(frozen=True, kw_only=True)
class Act(Declared, table="acts"):
    """An operation that somebody requested. `about` names its objects (ids, numbers, counts; no words of the memory).

    `outcome` is done, or the error's code; `version` is the version that it made, if any.
    """

    number: Key = 0
    at: datetime
    author: Code
    act: Code
    about: str
    outcome: Code
    version: int | None = None


TABLES: dict[str, Table] = {row.table.name: row.table for row in Declared.__subclasses__()}
"""The tables by name."""
_UNKNOWN = Column(is_words=True)


def content_of(table: str, column: str) -> Column:
    """Return what this column holds; an undeclared one counts as somebody's words."""
    return TABLES[table].columns.get(column, _UNKNOWN) if table in TABLES else _UNKNOWN
