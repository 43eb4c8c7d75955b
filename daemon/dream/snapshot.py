"""Snapshot: everything a dream reads: MEMORY.md as its owner left it, new input, and the ledger."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from sqlite3 import Connection

from daemon.config.paths import is_global
from daemon.ingest.feelings import LONGEST_CAUSE
from daemon.ingest.named import named_by_notes
from daemon.sessions import open_items
from daemon.workspace.document import read_document
from daemon.workspace.redaction import redacted
from daemon.workspace.searching import searched_in
from daemon.workspace.session_start import project_budget
from daemon.workspace.stores import Store
from graphs.input_budget import numbered
from graphs.room import OLD_TEXT_SHARE
from graphs.sheet import MAX_OLD_LINES
from state.changes.change import CurrentLine
from state.changes.owner import lines_in
from state.changes.page import Page
from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.document.asking import Heard
from state.document.document import Document
from state.document.merge import working
from state.document.operations import Operation
from state.document.pointer import parse_pointer
from state.document.redaction import redacted_line
from state.document.sections import SectionName
from state.document.seed import split_seed
from state.dream import Dream, Evidence, Kind, PointerLine, Reason, Snapshot
from state.errors import DreamdError, NotFoundError
from state.search.ranking import GOOD, score
from state.secrets.policy import Redaction
from state.signals import economics
from state.signals.curiosity import is_answered_by, question_key, rank_questions, topic_of_question
from state.signals.felt import Felt
from state.signals.hormones import Feeling, Hormones
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Feelings
from state.stores.crystals.search import search
from state.stores.crystals.skills import emerging_skills
from state.stores.crystals.supersessions import Supersessions
from state.stores.disk.disk import Disk
from state.stores.disk.strangers import Author, author_of
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Lineage
from state.stores.history.memory import NOTES_LEFT
from state.text.words import ends_as_question, normalise
from state.trust import Trust

MAX_CRYSTALS = 50
MAX_GAPS = 5
MAX_GAPS_ASKED = 20  # how many a dream asks again
# How many are read before ranking: explicit questions may be asked less often than accidental ones.
MAX_GAP_SOURCES = 200
MAX_SKILLS = 3
MAX_CONSTRAINTS = 50
MAX_WORKING = 20
MAX_FELT = 200
MAX_MOMENTS = 8
# The assumed age of text from before dreamd, so that all new input counts as newer.
OLD_TEXT_AGE = timedelta(days=30)
# The marker of a list item. A number without a dot is part of the text.
_MARKER = re.compile(r"^(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
# Origins of crystals whose text may equal a line exactly.
_LINE_ORIGINS = (Origin.SCRATCH, Origin.SESSION, Origin.DREAM, Origin.LINE)


def snapshot(
    store: Store,
    notes: Sequence[Crystal],
    taken: Sequence[tuple[int, str]],
    dream: str,
    reason: Reason,
    now: datetime,
    waiting: int = 0,
    newest: int | None = None,
) -> Snapshot:
    """Return the snapshot for a dream over these notes.

    `taken` pairs each note's row with its crystal's id, `waiting` counts the notes left for later dreams, and
    `newest` is the highest crystal row that the dream may read (None: no limit).
    """
    newest = store.crystals.newest() if newest is None else newest
    read = _standing(store, dream, reason, now)
    old_sections = _old_text(store.lineage, read.text, now)
    feed, feed_problems = _feed(store.workspace, store.memory.disk, now)
    redact = store.config.redaction.of
    old_pieces = (
        Evidence(line.id, Kind.OLD_TEXT, redact(line.text), line.importance, line.trust, line.born_at)
        for line in _offered(store.lineage, old_sections)
    )
    evidence = (*_evidence(store, read.lines, notes, now, newest), *numbered(Kind.FEED, feed), *old_pieces)
    named = named_by_notes(store, read.lines)
    replaced = set(chain.from_iterable(named.values()))
    # A note that a later note replaces is consumed without becoming a line.
    gone = tuple(piece.crystal for piece in evidence if piece.crystal in replaced)
    evidence = tuple(
        replace(piece, replaces=named.get(piece.crystal, ())) for piece in evidence if piece.crystal not in replaced
    )
    return replace(
        read,
        evidence=_from_where_it_stopped(store, evidence),
        seeds=(*store.crystals.unseen_seeds(), *gone),
        notes=tuple(notes),
        taken=tuple(taken),
        problems=(*read.problems, *feed_problems),
        proposed=tuple(proposed_today(store, read.lines).values()),
        newest=newest,
        waiting=waiting,
        unasked=store.ledger.refused(evidence),
        former=_former(store),
    )


def proposed_today(store: Store, lines: Sequence[CurrentLine]) -> dict[int, Operation]:
    """Return what waits for the owner by its number, with the ids that its lines have today."""
    waiting, page = store.proposals.all(), Page("", lines, 1)
    known = store.lineage.lines(name for one in waiting for name in one.operation.lines)

    def today(name: str) -> str:
        stands = page.stands(known[name]) if name in known else None
        return stands.id if stands else name

    return {one.number: replace(one.operation, lines=tuple(map(today, one.operation.lines))) for one in waiting}


def _former(store: Store) -> Dream | None:
    """Return the last version that a dream made, if a model dreamt it; None if it cannot be read."""
    dream = store.memory.readable_version(store.lineage.last_dream())
    return dream if dream is not None and dream.usage.calls else None


def _from_where_it_stopped(store: Store, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return the inputs, each from where the last dream stopped showing it, unless its text has changed since."""
    shown, redaction = store.notes.shown(), store.config.redaction
    found = list[Evidence]()
    for piece in evidence:
        start, length = shown.get(piece.crystal, (0, 0))
        text = redaction.of(piece.text) if length else ""
        found.append(replace(piece, text=text, start=start) if length and len(text) == length else piece)
    return tuple(found)


def standing(store: Store, now: datetime) -> Snapshot:
    """Return the snapshot for a change by the owner: MEMORY.md and its constraints, without input.

    Pending input stays pending.
    """
    left = store.meta.get(NOTES_LEFT)
    return replace(_standing(store, f"{now:%Y%m%dT%H%M%S%f}Z", Reason.MANUAL, now), waiting=int(left or 0))


def _standing(store: Store, dream: str, reason: Reason, now: datetime) -> Snapshot:
    """Return a snapshot of MEMORY.md as its owner left it, with the owner's decisions."""
    text, problems = read_document(store.workspace, store.connection)
    genome, genome_problems = _genome(store.workspace, store.memory.disk)
    document = working(text)
    present = {block.key for _, block in document.lines()}
    tombstones = store.lineage.tombstones()
    old_text = tuple(chain.from_iterable(_old_text(store.lineage, text, now)))
    pointers = _pointers(store.lineage, document)
    known = lines_in(document, store.lineage.current_lines())
    said_at = grounds_of(store.lineage, store.crystals, known).said_at
    lines = tuple(replace(line, said_at=said_at.get(line.id)) for line in known)
    hormones = store.feelings.levels(now)
    redaction = _redaction(store, lines)
    return Snapshot(
        dream=dream,
        now=now,
        reason=reason,
        text=text,
        based_on=store.lineage.last_version(),
        budget=_budget(store, text, document, old_text),
        next_line=store.lineage.next_line(),
        hormones=hormones,
        felt=_felt(store.lineage, store.feelings, hormones, now),
        lines=lines,
        pointers=pointers,
        pointed=tuple(store.crystals.get([pointer.crystal for pointer in pointers])),
        twins=_twins(store.crystals, redaction, lines),
        tombstones=tuple(one for one in tombstones if normalise(one) not in present),
        old_text=old_text,
        problems=(*problems, *genome_problems),
        genome=genome,
        redaction=redaction,
        zone=store.config.zone,
        forgotten=store.crystals.forgotten.tombstones(),
        ask=store.config.dream.ask,
        heard=store.config.dream.heard,
        handwritten=tuple(sorted(store.lineage.handwritten())),
        # Every project is given The Bond of the global workspace.
        notes_in=SectionName.BOND if is_global(store.workspace.root, os.environ) else SectionName.CONTEXT,
    )


@dataclass(frozen=True, slots=True)
class Grounds:
    """What is known of the evidence of lines, by line id. Lines without known evidence are left out.

    `said_at`: when its latest piece was said; `newer`: the crystal that supersedes the line; `since`: since when.
    """

    said_at: Mapping[str, datetime]
    newer: Mapping[str, Crystal]
    since: Mapping[str, datetime]


def grounds_of(lineage: Lineage, crystals: Crystals, lines: Sequence[CurrentLine]) -> Grounds:
    """Return what is known of these lines' evidence."""
    evidence = lineage.evidence()
    wordings = {line.id: line.crystal for line in lines if line.section is not SectionName.POINTERS}
    cited = {crystal for line in lines for crystal in evidence.get(line.id, ())}
    every = crystals.keys({*cited, *wordings.values()})
    known = Supersessions(crystals).among(every.values())
    rows = crystals.by_keys({*every.values(), *known.current.values()})
    said = crystals.said_last(every.values())
    last = {pair.newer: pair.at for pair in known.pairs}
    # What a version replaced was another line: this one holds though both came from one note.
    by_itself = {pair.older for pair in known.pairs if pair.version is None}
    said_at, superseding, since = dict[str, datetime](), dict[str, Crystal](), dict[str, datetime]()
    for line in lines:
        keys = {every[crystal] for crystal in evidence.get(line.id, ()) if crystal in every}
        if keys:
            said_at[line.id] = max(said[key] for key in keys)
        own = {every[wordings[line.id]]} if wordings.get(line.id) in every else set[int]()
        # A line with several pieces of evidence is superseded only if all of them are.
        over = own if own <= known.current.keys() and own else keys if keys <= by_itself else set[int]()
        newer = {known.current[key] for key in over if key in known.current} - keys - own
        if newer:
            newest = max(newer, key=lambda key: rows[key].created_at)
            superseding[line.id], since[line.id] = rows[newest], last[newest]
    return Grounds(said_at, superseding, since)


def _redaction(store: Store, lines: Sequence[CurrentLine]) -> Redaction:
    """Return the redaction that leaves the lines that a dream wrote as they are."""
    redaction = store.config.redaction
    doubtful = [line.text for line in lines if redacted(redaction, line.text) != line.text]
    written = [text for text in doubtful if redacted_line(text, redaction, store.grounds) == text]
    return redaction._replace(allow=(*redaction.allow, *written))


def _twins(crystals: Crystals, redaction: Redaction, lines: Sequence[CurrentLine]) -> tuple[Crystal, ...]:
    texts = [text for line in lines for text in (line.text, redacted(redaction, line.text))]
    digests = [crystal_digest(origin, text) for text in dict.fromkeys(texts) for origin in _LINE_ORIGINS]
    ids = crystals.ids_of(digests)
    own = [line.crystal for line in lines if line.crystal]
    return tuple(crystals.get(dict.fromkeys((*own, *(ids[digest] for digest in digests if digest in ids)))))


def as_input(crystal: Crystal, kind: Kind) -> Evidence:
    """Return a crystal as an input of a dream."""
    return Evidence(
        "",
        kind,
        crystal.text,
        crystal.importance,
        crystal.trust,
        crystal.created_at,
        crystal.id,
        crystal.kind.value,
        heard=crystal.heard,
    )


def _felt(lineage: Lineage, feelings: Feelings, hormones: Hormones, now: datetime) -> Felt:
    """Return the feelings recorded since the last dream, and the highest level of each hormone."""
    events, _ = feelings.events(lineage.last_dream_at(), now, MAX_FELT)
    levels = [hormones.levels, *(one.after.levels for one in events)]
    dopamine, cortisol, oxytocin = (max(level) for level in zip(*levels, strict=True))
    height = Hormones(dopamine, cortisol, oxytocin, now)
    return Felt(tuple((Feeling(one.event), one.cause) for one in reversed(events)), height)


def _evidence(
    store: Store, lines: Sequence[CurrentLine], notes: Sequence[Crystal], now: datetime, newest: int
) -> tuple[Evidence, ...]:
    """Number the notes, new crystals, questions, skills and open session items that are input of a dream.

    What a page or a tool said is excluded, so that no dream can launder it, and so is what its owner says does not
    hold; searches still find these crystals.
    """
    as_notes = {crystal.id for crystal in notes}
    fresh = store.crystals.undreamt(MAX_CRYSTALS + len(notes), newest)
    rows = store.crystals.keys({one.id for one in fresh})
    wrong = store.supersessions.overruled(rows.values())
    latest = [one for one in fresh if one.id not in as_notes and rows[one.id] not in wrong][:MAX_CRYSTALS]
    news = sorted(latest, key=lambda one: (one.created_at, rows[one.id]))  # in the order they were said
    # A restore may bring back notes from before notes were rows.
    written = [*notes, *(one for one in news if one.origin is Origin.SCRATCH)]
    # A question that a note of this dream asks is one input with it.
    asked = [question_key(crystal.text) for crystal in written]
    gaps = [gap for gap in _gaps(store, lines, now) if not any(question_key(gap.text) in one for one in asked)]
    every = (
        *numbered(Kind.NOTE, [as_input(crystal, Kind.NOTE) for crystal in written]),
        *numbered(Kind.CRYSTAL, [as_input(one, Kind.CRYSTAL) for one in news if one.origin is not Origin.SCRATCH]),
        *numbered(Kind.GAP, gaps),
        *numbered(Kind.SKILL, _skills(store, now)),
        *numbered(Kind.WORKING, _working(store.connection, store.config.redaction, now)),
        *numbered(Kind.FELT, _moments(store, now)),
    )
    left_out = store.config.dream.heard is Heard.LEAVE
    return tuple(piece for piece in every if piece.trust.rank >= Trust.AGENT.rank and not (piece.heard and left_out))


def _gaps(store: Store, lines: Sequence[CurrentLine], now: datetime) -> list[Evidence]:
    """Return the questions asked since the last dream that are still open, and not in a line yet.

    Each is asked again: its answer may stand in a line, or have been noted after it was asked.
    """
    since, said = store.lineage.last_dream_at(), [question_key(line.text) for line in lines]
    fresh = [gap for gap in store.questions.open(MAX_GAP_SOURCES) if gap.last_at > since]
    asked = [gap for gap in rank_questions(fresh, now) if not any(question_key(gap.question) in one for one in said)]
    still_open = (gap for gap in asked[:MAX_GAPS_ASKED] if _is_open(store, gap.question, lines, now))
    return [
        Evidence("", Kind.GAP, gap.question, min(0.9, 0.4 + 0.1 * gap.times), Trust.AGENT, gap.last_at)
        for gap in islice(still_open, MAX_GAPS)
    ]


def _is_open(store: Store, question: str, lines: Sequence[CurrentLine], now: datetime) -> bool:
    """Return whether no line and no memory is likely to answer a question, and its words are not forgotten."""
    words = topic_of_question(question)
    forgotten = store.crystals.forgotten.tombstones()
    if forgotten.found(question) or forgotten.asks(words):
        return False
    if any(is_answered_by(question, line.text) for line in lines):
        return False
    found = search(searched_in(store), words, now)
    return not any(
        (hit.signals and score(hit.signals, found.usual) >= GOOD) or is_answered_by(question, hit.crystal.text)
        for hit in found.hits
        if not ends_as_question(hit.crystal.text)
    )


def _skills(store: Store, now: datetime) -> list[Evidence]:
    return [
        Evidence("", Kind.SKILL, str(skill), skill.confidence, Trust.AGENT, now)
        for skill in emerging_skills(store.crystals)[:MAX_SKILLS]
    ]


def _working(connection: Connection, redaction: Redaction, now: datetime) -> list[Evidence]:
    """Return items of open sessions: context for a dream, but not input that would start one."""
    return [
        Evidence("", Kind.WORKING, one.text, one.importance, one.trust, one.created_at)
        for one in open_items(connection, redaction, now, MAX_WORKING)
    ]


def _moments(store: Store, now: datetime) -> list[Evidence]:
    """Return what was felt since the last dream, each with the cause that the agent gave.

    Causes that notes and turns tell are left out: these are inputs themselves, with who said them.
    """
    events, _ = store.feelings.events(store.lineage.last_dream_at(), now, MAX_FELT)
    given = [one for one in reversed(events) if one.cause and len(one.cause) < LONGEST_CAUSE]
    digests = {crystal_digest(origin, one.cause): one.cause for one in given for origin in _LINE_ORIGINS}
    known = {digests[digest] for digest in store.crystals.ids_of(digests)}
    told = [one for one in given if one.cause not in known]
    return [
        Evidence("", Kind.FELT, one.cause, 0.5, Trust.AGENT, one.after.at, about=one.event)
        for one in told[-MAX_MOMENTS:]
    ]


def _feed(workspace: Workspace, disk: Disk, now: datetime) -> tuple[list[Evidence], tuple[str, ...]]:
    try:
        content = disk.read_bytes(workspace.economics)
        if author_of(workspace, workspace.economics) is not Author.OWNER:
            return [], (_not_used(workspace, "memory/economics.json"),)
        feed = economics.parse_feed(content.decode())
    except NotFoundError:
        return [], ()
    except (DreamdError, UnicodeDecodeError) as error:
        return [], (f"memory/economics.json is skipped: {error}",)
    lines = economics.niche_lines(feed)
    return [Evidence("", Kind.FEED, line, 0.5, Trust.AGENT, now) for line in lines], ()


def _genome(workspace: Workspace, disk: Disk) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rules of GENOME.md, and why it is not used."""
    content = disk.read_optional(workspace.genome)
    if content is None:
        return (), ()
    if author_of(workspace, workspace.genome) is not Author.OWNER:
        return (), (_not_used(workspace, "GENOME.md"),)
    rows = (_MARKER.sub("", row.strip()) for row in content.decode(errors="replace").split("\n"))
    return tuple(row for row in rows if row and not row.startswith("#"))[:MAX_CONSTRAINTS], ()


def _not_used(workspace: Workspace, name: str) -> str:
    return (
        f"{name} came with the folder or by git, and is not used; if it is yours: dreamd init --mine {workspace.root}"
    )


def _old_text(lineage: Lineage, text: str, now: datetime) -> tuple[tuple[CurrentLine, ...], ...]:
    """Return the text from before the first dream as lines, one tuple per heading; none in the first dream."""
    parts = split_seed(text)
    if parts is None or not lineage.last_version():
        return ()
    inside, number, sections = normalise(parts[0]), 0, []
    for part in working(text).parts:
        lines = []
        for block in part.lines if part.name is None else ():
            number += 1
            if block.key in inside:
                name, at = f"T{number}", now - OLD_TEXT_AGE
                lines.append(
                    CurrentLine(name, SectionName.CONTEXT, block.text, 0.7, Trust.OWNER, at, block.pinned, above=True)
                )
        sections.append(tuple(lines))
    return tuple(filter(None, sections))


def _offered(lineage: Lineage, sections: Sequence[Sequence[CurrentLine]]) -> tuple[CurrentLine, ...]:
    """Return the old text offered to a dream: whole sections, with at most as many lines as may leave in one dream.

    Dreams take turns: what one leaves in place is offered again after all other batches.
    """
    batches: list[tuple[CurrentLine, ...]] = []
    for section in sections:
        for at in range(0, len(section), MAX_OLD_LINES):
            piece = tuple(section[at : at + MAX_OLD_LINES])
            if batches and len(batches[-1]) + len(piece) <= MAX_OLD_LINES:
                batches[-1] += piece
            else:
                batches.append(piece)
    return batches[(lineage.last_version() - 1) % len(batches)] if batches else ()


def _budget(store: Store, text: str, document: Document, old_text: Sequence[CurrentLine]) -> int:
    """Return how many characters MEMORY.md may have: the reader's budget, or more while it has old text.

    The first dream gets half a budget below the old text; later dreams keep that text within its share. Text that
    the owner keeps outside the seven sections takes at most half of the budget from them.
    """
    budget = project_budget(store.workspace, store.config.dream.context_window, store.config.redaction)
    if text.strip() and not store.lineage.last_version():
        return max(budget, len(text) + budget // 2)
    owners = sum(len(part.raw) for part in document.parts if part.name is None)
    parts = split_seed(text)
    if old_text and parts:
        above = len(parts[0]) - int(OLD_TEXT_SHARE * budget)
        owners -= min(max(0, above), sum(len(line.text) for line in old_text[-MAX_OLD_LINES:]))
    return max(budget, owners + budget // 2)


def _pointers(lineage: Lineage, document: Document) -> tuple[PointerLine, ...]:
    part = document.section(SectionName.POINTERS)
    parsed = filter(None, (parse_pointer(block.text) for block in part.lines)) if part else ()
    present = {keywords for _, keywords in parsed}
    return tuple(pointer for pointer in lineage.pointers(current=True) if pointer.keywords in present)
