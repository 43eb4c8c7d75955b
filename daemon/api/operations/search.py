"""Operations that read the memory: search, bootstrap, where a line comes from, why something was missing."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Annotated, Literal

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Moment
from daemon.api.shapes import duration, listed, one_row, quoted, shorten
from daemon.api.words import (
    CAUSES,
    author_words,
    cause_words,
    fate_words,
    origin_words,
    reason_words,
    signal_words,
)
from daemon.ingest.notes import absorb_notes
from daemon.journal.crystal import Evidence
from daemon.journal.ranks import SearchSignals, signals_of
from daemon.journal.story import Entry, LineStory, story_of_line
from daemon.journal.why_not import Answer, why_not
from daemon.observability.printable import ABOUT
from daemon.sessions import left_behind
from daemon.sessions.crystals import trust_of
from daemon.workspace.searching import BATCH, embedder_of, searched_in, tell
from daemon.workspace.session_start import session as session_start
from daemon.workspace.stores import Store, utc_now
from state.agents import agent_called
from state.bootstrap import budget_for
from state.crystals.crystal import Kind, Origin
from state.errors import BusyError, DreamdError, FullError, OperatorNotice, ReadOnlyError
from state.search.ranking import Filters, Findings, Former, Hit
from state.signals.curiosity import Cause, gap_of_search
from state.stores.crystals.search import search as find
from state.stores.database.connection import explained
from state.stores.history.leave_receipt import leave_receipt
from state.text.words import counted
from state.trust import Trust

MAX_LIMIT = 1_000
_NO_FILTERS = Filters()
# If more than a batch waits, a search embeds only this many of the newest crystals first, in 0.1 s.
_NEWEST = 16
# Hits below this share of the best score only fill the limit, and do not count as an access.
_COUNTED_SHARE = 0.5
# Characters of a search that fit into one answer, some 8,000 tokens; the first result is always shown.
MOST_FOUND = 32_000
_MOST_EVIDENCE, _MOST_ENTRIES, _MOST_QUOTED = 10, 10, 1_000


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


def bootstrap_text(reply: BootstrapReply) -> str:
    """Return the bootstrap under the heading that keeps transcripts from teaching it again."""
    return f"{ABOUT}\n\n{reply.text}" if reply.text else "The memory is empty."


@operation(
    "memory_bootstrap",
    reads=True,
    agents="memory",
    text=bootstrap_text,
    hint="Your long-term memory. At session start read memory://bootstrap (or call memory_bootstrap).",
)
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
            access.notices.append(OperatorNotice(f"that this was given is not noted: {error}"))
    return BootstrapReply(ready.text, *ready[:7])


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
    formerly: tuple[Former, ...] = ()
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


def search_text(reply: SearchReply) -> str:
    """Show the results, best first, as far as they fit into one answer."""
    left = [f"{reply.unlikely} near and unlikely"] if reply.unlikely else []
    left += [f"{reply.over} superseded or answered"] if reply.over else []
    those = "it" if reply.unlikely + reply.over == 1 else "them"
    more = [f"Left out: {' and '.join(left)}; all: true (--all) shows {those}"] if left else []
    if not (reply.hits or reply.archived or reply.questions):
        nothing = "Nothing that is likely to answer was found" if left else "Nothing was found"
        return "\n".join([f"{nothing}. 'dreamd why-not TEXT' says why a thing is missing.", *more])
    head = ABOUT
    head += "" if reply.good else " Nothing answers this well; what follows is the nearest."
    head += "" if "dense" in reply.arms else " It was searched by words only."
    found = [_hit_rows(number, hit) for number, hit in enumerate(reply.hits, 1)]
    found += [_question_rows(one) for one in reply.questions]
    found += [_archived_rows(one) for one in reply.archived]
    rows, room, left_out = [head], MOST_FOUND, 0
    for place, one in enumerate("\n".join(each) for each in found):
        room -= len(one)
        if room >= 0 or not place:
            rows.append(one)
        else:
            left_out += 1
    if left_out:
        what = f"{counted(left_out, 'other result')} did not fit"
        rows.append(f"{what} into one answer: ask with words of what you miss, and a lower limit")
    return "\n".join((*rows, *more))


def how_likely(chance: float) -> str:
    """Return a chance in [0, 1] in words: about half of the results called likely answer the query."""
    return "likely" if chance >= 0.4 else "possible" if chance >= 0.15 else "unlikely"


def _archived_rows(one: Archived) -> Iterator[str]:
    yield from quoted("- ", one.text)
    age = duration(one.age_days * 86_400)
    yield f"   {listed(f'left session {one.session}', f'trust {one.trust}', f'{age} old', f'id {one.id}')}"


def _question_rows(one: SearchHit) -> Iterator[str]:
    yield from quoted("? ", one.text)
    yield f"   {listed('open question', f'{duration(one.age_days * 86_400)} old', f'crystal {one.id[:12]}')}"


def _hit_rows(number: int, hit: SearchHit) -> Iterator[str]:
    yield from quoted(f"{number}.", hit.text)
    if hit.superseded_at is not None:
        yield f"   superseded {hit.superseded_at:%Y-%m-%d} by: {one_row(hit.superseded_by)}"
    if hit.later:
        yield f'   later: "{shorten(hit.later.text)}", {hit.later.at:%-d %b %Y}'
    for former in hit.formerly:
        what = "draft" if former.is_draft else "formerly"
        yield f"   {what}, {former.at:%Y-%m-%d}: {one_row(former.text)}"
    place = f"in MEMORY.md ({hit.line})" if hit.line else ""
    about = (how_likely(hit.score), place, f"{hit.kind} from {origin_words(hit.origin)}", f"trust {hit.trust}")
    age = f"{duration(hit.age_days * 86_400)} old"
    yield f"   {listed(*about, hit.context, age, hit.provenance.partition('@')[0], f'crystal {hit.id[:12]}')}"
    if hit.signals:
        yield from (f"   {row}" for row in _rank_rows(hit.signals))


def _rank_rows(signals: SearchSignals) -> Iterator[str]:
    """Yield rows that explain a result's rank: shares of its relevance, boosts, and neighbours in its session."""
    if signals.shares:
        shares = [
            f"{signal_words(one.name)} {one.share:+.2f} ({one.value:.2f} x {one.weight:g})"
            for one in signals.shares
            if one.value
        ]
        yield f"relevance {signals.relevance:.2f}: {', '.join(shares) or 'nothing'}"
    else:
        yield "not found itself: it gives a result below another value"
    if signals.cosine is not None and signals.usual is not None:
        yield f"near in meaning: {signals.cosine:.2f}, unrelated texts {signals.usual:.2f}"
    if signals.boosts:
        yield f"moved by {', '.join(f'{one.name} x {one.factor:.2f}' for one in signals.boosts)}"
    for one in signals.neighbours:
        said = f"{one.speaker}: {one.text}" if one.speaker else one.text
        yield f"{f'{-one.place} before' if one.place < 0 else f'{one.place} after'}: {one_row(said)}"


@operation(
    "memory_search",
    reads=True,
    agents="memory",
    text=search_text,
    hint="Look up crystal pointers (→ search: `…`) and the past with memory_search.",
    first=True,
)
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
        left = _archived_hits(store, query, limit, filters, findings) if archived else ()
        redacted = store.config.redaction.of
        hits = tuple(_hit_reply(hit, why, redacted) for hit, why in zip_longest(findings.hits, reasons))
        asking = tuple(_hit_reply(hit, None, redacted) for hit in findings.questions)
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
            store.notices.add(f"searched as it stands: {why.what}")
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
        store.questions.raise_(gap, Cause.MISS, now)
    return findings


def search(
    store: Store, query: str, limit: int = 8, filters: Filters = _NO_FILTERS, *, everything: bool = False
) -> Findings:
    """Search without writing anything, so without holding the workspace's lock."""
    now = utc_now()
    levels, searched = store.feelings.levels(now), searched_in(store)
    return find(searched, query, now, limit=limit, filters=filters, hormones=levels, everything=everything)


def _archived_hits(
    store: Store, query: str, limit: int, filters: Filters, findings: Findings
) -> tuple[Archived, ...]:
    """Return matches in the sessions' archive that are not among the found crystals."""
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
        for item in left_behind(store.connection, store.feelings, query, limit, filters, now)
        if (text := store.config.redaction.of(item.content)) not in known
    )


def _hit_reply(hit: Hit, signals: SearchSignals | None, redacted: Callable[[str], str]) -> SearchHit:
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
        formerly=tuple(replace(one, text=redacted(one.text)) for one in hit.former),
        later=Later(hit.later.text, hit.later.created_at, hit.later.id) if hit.later else None,
        signals=signals,
    )


@dataclass(frozen=True, slots=True)
class WhyReply:
    """The stories of at most five matching lines, current ones first."""

    lines: tuple[LineStory, ...]


def why_text(reply: WhyReply) -> str:
    """Show the changes of each matching line."""
    return "\n\n".join([ABOUT, *("\n".join(_story_rows(one)) for one in reply.lines)])


def _story_rows(line: LineStory) -> Iterator[str]:
    yield f"{line.id or '(new)'}  {line.section or 'above the sections'}: {one_row(line.text)}"
    if not line.entries:
        yield "  written by hand; no dream has met it yet"
    for one in line.entries[:_MOST_ENTRIES]:
        yield f"  {_entry_row(one)}"
        for old in one.old:
            if old.id != line.id:
                yield f"    replaced {old.id}: {_excerpt(old.text)}"
        for piece in one.evidence[:_MOST_EVIDENCE]:
            yield from (f"    {row}" for row in _evidence_rows(piece))
        if left_out := len(one.evidence[_MOST_EVIDENCE:]):
            yield f"    and {left_out} more"
    if left_out := len(line.entries[_MOST_ENTRIES:]):
        yield f"  and {counted(left_out, 'earlier change')}"
    yield from _value_rows(line)
    if not line.stands:
        now, words = line.now and f"now: {line.now}", line.keywords and f"search: {line.keywords}"
        kept = f"kept as crystal {line.crystal[:12]}" if line.crystal else "kept in 'dreamd history'"
        yield f"  {listed('it has left', now, words, kept)}"


def _value_rows(line: LineStory) -> Iterator[str]:
    """Yield the values that changed from wording to wording, and those that no evidence of the line has."""
    if line.values:
        yield f"  its values: {one_row(', '.join(f'{one.value} since {one.at:%Y-%m-%d}' for one in line.values))}"
    if line.unsupported:
        missing = (line.text[one.start : one.end] for one in line.unsupported)
        yield f"  not in its evidence: {one_row(', '.join(missing))}"


def _entry_row(one: Entry) -> str:
    """Return a change in a row: its name, what it did, when, and who made it."""
    head = f"{one.name or f'version {one.version}'} {fate_words(one.why)} {one.at:%Y-%m-%d %H:%M %Z}"
    if not one.cause:
        return listed(head, "the record of its version is gone")
    if one.cause in CAUSES:
        return listed(head, cause_words(one.cause, one.reason))
    return listed(head, f"{cause_words(one.cause)} ({reason_words(one.reason)})", author_words(one.author))


def _evidence_rows(one: Evidence) -> Iterator[str]:
    if one.at is None:
        yield f"rests on crystal {one.id[:12]}, which was forgotten"
        return
    where = "; ".join(source.partition("@")[0] for source in one.sources[:_MOST_EVIDENCE])
    made = one.parents and f"made from {', '.join(parent[:12] for parent in one.parents)}"
    heard = one.heard and f"heard: {one.heard}"
    about = listed(origin_words(one.origin), f"trust {one.trust}", heard, f"{one.at:%Y-%m-%d}", where, made or "")
    yield f"rests on crystal {one.id[:12]} ({about}): {_excerpt(one.text)}"
    if one.superseded_at:
        by = f"{one.superseded_at:%Y-%m-%d} by crystal {one.superseded_by[:12]}, found by {one.found_by}"
        yield f"  superseded {by}: {_excerpt(one.holds_now)}"
        yield f"  (both hold? dreamd supersede --undo {one.id[:12]} {one.superseded_by[:12]})"


def _excerpt(text: str) -> str:
    """Return at most 1,000 characters of a text in one row, and how many more there are."""
    more = len(text) - _MOST_QUOTED
    return one_row(text) if more <= 0 else f"{one_row(text[:_MOST_QUOTED])}… [{counted(more, 'character')} more]"


@operation("memory_why", reads=True, agents="memory", text=why_text)
def memory_why(
    access: WorkspaceAccess,
    text: Annotated[str, Arg("Words of the line, or its id such as L12", min_length=1, max_length=10_000)],
) -> WhyReply:
    """Say where a line of MEMORY.md comes from: dream, operation, evidence. Use when you doubt it."""
    with access.read() as store:
        return WhyReply(story_of_line(store, text))


def why_not_text(answer: Answer) -> str:
    """List the reasons, with advice for each."""
    rows = list[str]()
    if (given := answer.receipt) is not None:
        how = f"{given.how} ({given.agent})" if given.agent else given.how
        rows.append(f"last read {given.at:%Y-%m-%d %H:%M %Z} by {how}: version {given.version}")
    for reason in answer.reasons:
        rows += [said] if (said := one_row(reason.text)) else []
        rows.append(f"  {one_row(reason.what)}")
        rows += [f"  {reason.advice}"] if reason.advice else []
    return "\n".join(rows + ([f"and {answer.more} more; ask with more words"] if answer.more else []))


@operation("memory_why_not", reads=True, text=why_not_text)
def memory_why_not(
    access: WorkspaceAccess,
    text: Annotated[str, Arg("Words of it, or the id of its line such as L12", min_length=1, max_length=10_000)],
    session: Annotated[str, Arg("As its agent calls it; else the last bootstrap", max_length=1_000)] = "",
) -> Answer:
    """Say why a thing was not in what an agent was last given, and what to do about it."""
    with access.read() as store:
        return why_not(store, text, session)
