"""Emerging skills: tasks that recur in different sessions."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from state.text.languages.loader import words
from state.text.line import as_line
from state.text.words import content_terms, normalise, stem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_SESSIONS, LEAST_DAYS = 2, 3
SAME_TASK_COSINE = 0.7
SAME_TASK_WORDS = 0.4
OCCURRENCES_SCALE = 3.0
PATTERN_CHARACTERS = 60
MAX_CLAUSES = 12
MAX_PATTERNS = 1_000

_CLAUSE = re.compile(r"(?<=[.;:!?])\s|[。；！？]|\s[–—-]\s|→|\n")


@dataclass(frozen=True, slots=True)
class TaskPattern:
    """One task that was done: its session, time, and the vector of its text, if there is one (of any norm)."""

    text: str
    session: str
    at: datetime
    vector: "Sequence[float] | NDArray[np.float32] | None" = None


@dataclass(frozen=True, slots=True)
class EmergingSkill:
    """A recurring task. `str(skill)` is its line in MEMORY.md, without the bullet."""

    pattern: str
    confidence: float  # 0..1
    occurrences: int
    sessions: int = 0  # 0: unknown

    def __str__(self) -> str:
        return f"{self.pattern} → Confidence: {round(self.confidence * 100)}% | Occurrences: {self.occurrences}"


def emerging(patterns: Sequence[TaskPattern]) -> list[EmergingSkill]:
    """Return similar tasks of two sessions and three days, most confident first; the input's order does not matter.

    Tasks are similar if the cosine of their vectors is at least .6 or, where one has no vector, if they share two
    fifths of their words. A cluster is the task with the most similar ones, which names it, and those. Tasks without
    a session count as one session. Of more than 1,000 tasks, only the latest count.
    """
    tasks = _distinct(patterns)
    if not tasks:
        return []
    likeness = _likeness(tasks)
    skills = []
    for centre, members in _stars(likeness, [len(task.text) for task in tasks]):
        sessions = len({tasks[j].session for j in (centre, *members)})
        days = len({tasks[j].at.date() for j in (centre, *members)})
        if sessions >= LEAST_SESSIONS and days >= LEAST_DAYS:
            occurrences, cohesion = 1 + len(members), float(likeness[centre, members].mean())
            name = short_name(tasks[centre].text, [tasks[j].text for j in members])
            skills.append(EmergingSkill(name, confidence(occurrences, cohesion), occurrences, sessions))
    return sorted(skills, key=lambda skill: (-skill.confidence, -skill.occurrences, skill.pattern))


def confidence(occurrences: int, cohesion: float) -> float:
    """Return (1 - e^(-occurrences/3)) · (1 + cohesion)/2, in [0, 1): .59 for three tasks of cohesion .85.

    `cohesion` is the mean similarity of the tasks to the central one, in [0, 1].
    """
    return (1.0 - math.exp(-occurrences / OCCURRENCES_SCALE)) * (1.0 + min(1.0, max(0.0, cohesion))) / 2.0


def short_name(text: str, others: Sequence[str] = ()) -> str:
    """Return the clause of a task that shares the most words with similar tasks, cut at a word, without arrows.

    A clause that only says when ("Every week:") is no name. Among equals, the first clause wins.
    """
    clauses = [part for part in _CLAUSE.split(text.strip()) if part.strip(" .;:!?-*")][:MAX_CLAUSES] or [text]
    shared = frozenset().union(*map(_subject, others))
    clause = max(clauses, key=lambda part: (len(_subject(part) & shared), bool(_subject(part))))
    flat = as_line(clause.strip(" .;:!?-*→").replace("→", "to").replace("->", "to"), PATTERN_CHARACTERS)
    return flat if _subject(flat) else "Recurring task"


def _subject(text: str) -> frozenset[str]:
    """Return the content words of a text, without those that say when."""
    return content_terms(text) - _moments()


@cache
def _moments() -> frozenset[str]:
    """Return the names of days and months, and words such as "every", stemmed."""
    return frozenset(map(stem, words("moments")))


def _stars(likeness: "NDArray[np.float32]", lengths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield disjoint clusters, the largest first: a central task and the tasks similar to it.

    Among tasks with equally many similar ones, the more similar, then the shorter one, is central.
    """
    import numpy as np

    like = likeness > 0
    counts, sums = like.sum(axis=1), likeness.sum(axis=1, dtype=np.float64)
    free = np.ones(len(lengths), dtype=bool)
    while counts.max() > 0:
        # lexsort sorts by its last key first.
        centre = int(np.lexsort((-np.arange(len(lengths)), -np.asarray(lengths), sums.round(3), counts))[-1])
        members = [int(j) for j in np.flatnonzero(like[centre] & free)]
        yield centre, members
        leaving = [centre, *members]
        free[leaving] = False
        counts -= like[:, leaving].sum(axis=1)
        sums -= likeness[:, leaving].sum(axis=1, dtype=np.float64)
        counts[leaving] = 0


def _distinct(patterns: Sequence[TaskPattern]) -> list[TaskPattern]:
    """Return the latest tasks, one per text and session, in an order independent of the input's."""
    once = {
        (task.session, normalise(task.text)): task
        for task in sorted(patterns, key=lambda task: task.at, reverse=True)
    }
    latest = sorted(once.values(), key=lambda task: (task.at, task.session, task.text), reverse=True)
    return latest[:MAX_PATTERNS]


def _likeness(tasks: Sequence[TaskPattern]) -> "NDArray[np.float32]":
    """Return the similarities in [0, 1], shape (n, n); 0 where two tasks are not similar."""
    import numpy as np

    terms = [content_terms(task.text) for task in tasks]
    column = {word: i for i, word in enumerate(sorted(frozenset().union(*terms)))}
    counts = np.zeros((len(tasks), max(1, len(column))), dtype=np.float32)
    for row, present in enumerate(terms):
        counts[row, [column[word] for word in present]] = 1.0
    shared = counts @ counts.T
    sizes = counts.sum(axis=1)
    either = np.maximum(sizes[:, None] + sizes[None, :] - shared, 1.0)
    alike: NDArray[np.float32] = shared / either
    alike[alike < SAME_TASK_WORDS] = 0.0
    with_vector = [i for i, task in enumerate(tasks) if task.vector is not None]
    if with_vector:
        vectors = np.asarray([tasks[i].vector for i in with_vector], dtype=np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        cosine = np.clip(vectors @ vectors.T, 0.0, 1.0)
        cosine[cosine < SAME_TASK_COSINE] = 0.0
        alike[np.ix_(with_vector, with_vector)] = cosine
    np.fill_diagonal(alike, 0.0)
    return alike
