"""Consolidation: takes in what is new, merges duplicates, finds what is superseded, ages crystals; without a model.

    absorb ─> embed ─> compare (merge, supersede, dispute) ─> age ─> find skills ─> settle questions ─> sweep

Each step takes what waits for it (a queue, a watermark, a moment that has come) in batches. A batch is one short
transaction that also says that it is done: a kill repeats the batch that it met, and no other. With nothing new a
pass is a few look-ups, however large the store is.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.dream.lines.agreements import propose_agreements
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import Absorbed, absorb_transcripts, transcript_files
from daemon.sessions import hand_over, maintain
from daemon.workspace.stores import EMBED_BATCH, Store
from graphs.extractive import condensed
from state.crystals.contradiction import disagree
from state.crystals.crystal import Crystal
from state.crystals.duplicates import NEAR_COSINE, same_memory
from state.crystals.supersession import Supersession, one_value_each, sureness_of
from state.document.document import SectionName
from state.dream import CurrentLine
from state.errors import ConfigError
from state.search.answering import answers
from state.signals.curiosity import CONTRADICTION, gap_of_contradiction, question_key
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.skills import Skills
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.vectors.chroma import VectorIndex
from state.text.identity import UPDATE
from state.text.line import as_line
from state.trust import Trust

COMPARE_BATCH = 64
NEAREST = 12
# Two texts about the same thing are at least as near as this.
RELATED_COSINE = 0.5
# So many open questions are asked again in one pass; those that waited longest first.
ASKED_AGAIN = 20
_ANSWERS_LOOKED_AT = 8
# Of a file, and of the questions in the stores, no more are looked at.
_LINES_ASKED = 20
_MOST_OPEN = 500


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What one pass did. `skills` is how many there are when they were found anew; `problems` are for a person.

    `complete` is false when it was stopped: the rest waits for the next pass.
    """

    notes: int = 0
    turns: int = 0
    working: int = 0
    vectors: int = 0
    compared: int = 0
    merged: int = 0
    superseded: int = 0
    archived: int = 0
    frozen: int = 0
    skills: int | None = None
    raised: int = 0
    settled: int = 0
    problems: tuple[str, ...] = ()
    complete: bool = True

    @property
    def changed(self) -> bool:
        """Whether anything was new, or moved."""
        counts = (self.notes, self.turns, self.working, self.vectors, self.compared)
        moved = (self.archived, self.frozen, self.settled)
        return any(counts) or any(moved) or self.skills is not None


def consolidate(store: Store, now: datetime, stop: Callable[[], bool] = lambda: False) -> Consolidation:
    """One pass over a workspace that this process owns; `stop()` is called between batches.

    Transcripts that cannot be read are among the problems. Raises what the stores fail with: what was done until
    then stays, and the next pass goes on.
    """
    absorbed = _absorb(store, now, stop)
    notes = absorb_notes(store, now, None, stop)
    kept = maintain(store, now)
    working = kept.delivered + hand_over(store, now)
    vectors = embed(store, stop)
    compared = compare(store, now, stop)
    archived, frozen = _age(store, now, stop)
    skills = None if stop() else Skills(store.crystals.connection).refresh()
    settled = 0 if stop() else settle_questions(store, now)
    propose_agreements(store, now)
    store.sweep(now)
    return Consolidation(
        notes=notes,
        turns=absorbed.turns,
        working=working,
        vectors=vectors,
        compared=compared.count,
        merged=compared.merged,
        superseded=compared.superseded,
        archived=archived,
        frozen=frozen,
        skills=skills,
        raised=compared.raised,
        settled=settled,
        problems=absorbed.problems,
        complete=not stop(),
    )


def _absorb(store: Store, now: datetime, stop: Callable[[], bool]) -> Absorbed:
    try:
        return absorb_transcripts(store, transcript_files(store), now, stop=stop)
    except ConfigError as error:
        return Absorbed(problems=(str(error),))


def embed(store: Store, stop: Callable[[], bool]) -> int:
    """Embed what waits for a vector, file it, and write it to the index if that is open or needed; how many."""
    vectors, done = store.crystals.vectors, 0
    if vectors.wait() and (embedder := store.embedder()) is not None:
        while not stop() and (count := vectors.embed_pending(embedder, EMBED_BATCH)):
            done += count
    if not stop():
        store.file_vectors()
    index = store.wanted_index() if done else store.indexing.open_index
    while index is not None and not stop() and vectors.index_pending(index, EMBED_BATCH):
        pass
    return done


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of comparing crystals with those nearest to them: how many, merged, superseded, questions raised."""

    count: int = 0
    merged: int = 0
    superseded: int = 0
    raised: int = 0


def compare(
    store: Store, now: datetime, stop: Callable[[], bool] = lambda: False, most: int | None = None
) -> Compared:
    """Merge what says the same as something near it, find what it supersedes, and raise what contradicts it.

    Of what waits at most so many, the latest first.
    """
    duplicates, supersessions = HiddenDuplicates(store.crystals), Supersessions(store.crystals)
    count = merged = superseded = raised = 0
    batch = COMPARE_BATCH if most is None else min(most, COMPARE_BATCH)
    while not stop() and (most is None or count < most) and (keys := duplicates.waiting(batch)):
        found = _pairs(store, duplicates, keys)
        with transaction(store.crystals.connection):
            store.check()
            merged += sum(duplicates.merge(one, other, cosine) for (one, other), cosine in found.alike.items())
            superseded += supersessions.record(pair for pair in found.superseded if pair.sureness >= UPDATE)
            supersessions.record(pair for pair in found.superseded if pair.sureness < UPDATE)
            for one, other in found.opposed:
                raised += store.questions.dispute(gap_of_contradiction(one.text, other.text), one.id, other.id, now)
            duplicates.compared(keys)
        count += len(keys)
    return Compared(count, merged, superseded, raised)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows that are one memory, with their cosine; those of which one supersedes the other; and what is in doubt."""

    alike: dict[tuple[int, int], float]
    superseded: list[Supersession]
    opposed: list[tuple[Crystal, Crystal]]


def _pairs(store: Store, duplicates: HiddenDuplicates, keys: list[int]) -> _Pairs:
    """What these rows and those nearest to them are to each other. Outside of any transaction: it takes a while."""
    near = store.crystals.vectors.neighbours(keys, NEAREST, _index(store))
    others = {other for cosines in near.values() for other in cosines}
    canonical = duplicates.survivors({*keys, *others})
    crystals = store.crystals.by_keys({*keys, *others, *canonical.values()})
    said = store.crystals.said_last(crystals)
    alike: dict[tuple[int, int], float] = {}
    superseded: dict[tuple[int, int], Supersession] = {}
    opposed: dict[tuple[str, str], tuple[Crystal, Crystal]] = {}
    for key, cosines in near.items():
        if key in canonical or key not in crystals:
            continue
        disputes = []
        for other, cosine in cosines.items():
            same = canonical.get(other, other)  # a merged duplicate is judged by the crystal that it became
            if cosine < RELATED_COSINE or same == key or same not in crystals:
                continue
            older, newer = sorted((key, same), key=lambda row: (said[row], row))
            if cosine >= NEAR_COSINE and same_memory(crystals[key], crystals[same], cosine):
                alike[min(key, same), max(key, same)] = cosine
                continue
            # Of what was said at the same time nothing is newer.
            later = said[older] < said[newer]
            sureness = sureness_of(crystals[older], crystals[newer], cosine) if later else 0.0
            if sureness:
                superseded[older, newer] = Supersession.found(older, newer, sureness, crystals[newer])
            if sureness < UPDATE and disagree(crystals[older], crystals[newer]):
                disputes.append((crystals[older], crystals[newer]))
        for one, another in disputes[:1]:  # one question about a crystal is enough
            opposed[one.id, another.id] = (one, another)
    return _Pairs(alike, one_value_each(superseded.values()), list(opposed.values()))


def _index(store: Store) -> VectorIndex | None:
    """The open index, or for a store that is not small and has no vector file, the index opened now."""
    return store.index() if store.lacks_file() else store.indexing.open_index


def _age(store: Store, now: datetime, stop: Callable[[], bool]) -> tuple[int, int]:
    """Archive what has faded; returns how many crystals were archived, and frozen."""
    archived = frozen = 0
    while not stop():
        store.check()
        faded, kept = store.crystals.archive_faded(now)
        archived, frozen = archived + faded, frozen + kept
        if not faded + kept:
            break
    return archived, frozen


def settle_questions(store: Store, now: datetime) -> int:
    """Forget the questions that were answered since they were asked; returns how many."""
    newest = store.crystals.newest()
    waiting = store.questions.to_ask(ASKED_AGAIN)
    answered = {gap.question for gap, after in waiting if _answered(store, gap.question, after, now)}
    store.check()
    with transaction(store.crystals.connection):
        for question in answered:
            store.questions.settle(question)
        if waiting:
            store.questions.asked([gap.question for gap, _ in waiting], newest)
        return len(answered) + store.questions.settle_disputes()


def _answered(store: Store, question: str, after: int, now: datetime) -> bool:
    """Whether a search finds a newer crystal of a trusted author that answers the question."""
    found = _answers(store, question, now)
    return bool(store.crystals.later_than(after, [crystal.id for crystal in found]))


def _answers(store: Store, question: str, now: datetime) -> list[Crystal]:
    hits = store.searcher().search(question, now, limit=_ANSWERS_LOOKED_AT).hits
    return [
        hit.crystal
        for hit in hits
        if hit.crystal.trust.rank >= Trust.AGENT.rank and answers(question, hit.crystal.text)
    ]


def answered_lines(
    store: Store, lines: Sequence[CurrentLine], new: Collection[str], now: datetime
) -> tuple[str, ...]:
    """The ids of the lines of Curiosity Gaps whose questions are settled; nothing is written.

    Something that was said since, or is among the crystals `new` to the dream, answers it; or it is a contradiction
    that is none any more. What the owner wrote or pinned stays.
    """
    asked = [
        line
        for line in lines
        if line.section is SectionName.GAPS and not line.pinned and line.trust is not Trust.OWNER
    ][:_LINES_ASKED]
    still_open = {question_key(as_line(condensed(gap.question))) for gap in store.questions.open(_MOST_OPEN)}
    settled = []
    for line in asked:
        if line.text.startswith(CONTRADICTION):
            over = len(still_open) < _MOST_OPEN and question_key(line.text) not in still_open
        else:
            found = _answers(store, line.text, now)
            over = any(crystal.id in new or crystal.created_at > line.born_at for crystal in found)
        settled += [line.id] if over else []
    return tuple(settled)
