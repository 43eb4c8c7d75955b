"""Recall: whether what a search found before a dream is found after it.

The pointers of MEMORY.md and the last searches are asked right before the dream and right after it. What it costs is
bounded, and what goes wrong with it is a notice: no dream fails for it.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.workspace.stores import Store
from state.errors import DreamdError
from state.stores.history.ledger import Recall

# What is wanted must be among the first so many hits: as many as a pointer is verified with.
FIRST = 5
# For all questions together, and again after the dream; what has no time left is not asked.
MOST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for, and the crystal (id) that it is to find. A pointer's keywords find it by words alone."""

    query: str
    crystal: str
    pointer: bool


def questions(store: Store) -> tuple[Question, ...]:
    """Return the last searches and the pointers, in turn, so that neither keeps the other from being asked."""
    searches = [Question(query, crystal, pointer=False) for query, crystal in store.ledger.searches()]
    pointers = [Question(one.keywords, one.crystal, pointer=True) for one in store.lineage.pointers(current=True)]
    longest = max(len(searches), len(pointers))
    unique = dict[str, Question]()
    for question in (one[at] for at in range(longest) for one in (searches, pointers) if at < len(one)):
        unique.setdefault(question.query, question)
    return tuple(unique.values())


def recall_before(store: Store, now: datetime) -> dict[Question, bool]:
    """Whether each question finds its crystal now, as far as there is time; empty when that cannot be told."""
    try:
        return _found(store, questions(store), now)
    except (DreamdError, sqlite3.Error) as error:
        store.notice(f"what this dream does to searches is not measured: {error}")
        return {}


def record_recall(store: Store, dream: str, before: Mapping[Question, bool], now: datetime) -> None:
    """Ask the same again and record both, when anything was asked; what is lost is a notice too."""
    try:
        after = _found(store, tuple(before), now)
        if not after:
            return
        lost = tuple(one.query for one, is_found in after.items() if before[one] and not is_found)
        recall = Recall(len(after), sum(before[one] for one in after), sum(after.values()), lost)
        store.ledger.record_recall(dream, recall, now)
    except (DreamdError, sqlite3.Error) as error:
        store.notice(f"what dream {dream} did to searches is not recorded: {error}")
        return
    if lost:
        store.notice(str(recall))


def _found(store: Store, asked: Sequence[Question], now: datetime) -> dict[Question, bool]:
    deadline, searcher, embedder = time.monotonic() + MOST_SECONDS, store.searcher(), store.embedder()
    if embedder is not None and asked:
        embedder.embed([one.query for one in asked])  # all at once: each of the searches finds its vector kept
    answers = dict[Question, bool]()
    for one in asked:
        if time.monotonic() > deadline:
            break
        hits = searcher.search(one.query, now, limit=FIRST, by_value=not one.pointer).hits
        answers[one] = one.crystal in {hit.crystal.id for hit in hits}
    return answers
