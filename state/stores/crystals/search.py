"""Searcher: answers memory_search with one question to each index, then bounded work on what they answered.

Both indexes give their best; the neighbours of these join them, for the text that answers often stands beside the
one that matches. Each candidate's signals are then computed from rows that are looked up by key, so the cost does
not follow the size of the store. Nothing is written.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from state.crystals.crystal import Crystal
from state.crystals.duplicates import asked_word_for_word
from state.search.query import Question, asks_again, names_in, read_question
from state.search.ranking import (
    ALONE,
    CANDIDATES,
    CONTEXT_WEIGHTS,
    FADED,
    GOOD,
    Filters,
    Findings,
    Hit,
    Signals,
    age_days,
    coverage,
    nearby_weight,
    order,
    relevance,
    score,
    shares,
    unrelated,
    word_weight,
)
from state.search.updates import Ranked, wanted_by
from state.signals.hormones import Hormones, asks_for_hormones, is_hormone_event
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.current_values import CurrentValues
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.nearest import ChromaIndex
from state.stores.crystals.neighbours import Surroundings, surroundings
from state.stores.database.connection import memory_database, optional_text
from state.stores.vectors.embedder import Embedder
from state.trust import AGENT_NAMES, Trust

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# So many of them are read: a little more than is shown, for duplicates are hidden and near ties decided by the text.
SHORTLIST = 40
EVERYTHING = Filters()
_NOTHING = (0, 0.0, 0.0)
_LISTED = "IN (SELECT value FROM json_each(?))"


class Beside:
    """Crystals that are searched as if they were stored, in a database in memory, so that no lock is needed.

    Each is ranked without its neighbours in a session. Close it after use.
    """

    def __init__(self, crystals: Iterable[Crystal], embedder: Embedder | None) -> None:
        self.connection = memory_database()
        self.crystals = Crystals(self.connection)
        self.crystals.upsert(crystals)
        self.keys = range(1, self.crystals.newest() + 1)
        if embedder is not None and self.keys:
            self.crystals.vectors.embed_pending(embedder, len(self.keys))

    def close(self) -> None:
        """Close the databases in memory."""
        self.crystals.vectors.close()
        self.connection.close()


class Searcher:
    """Searches one workspace. Reads only: the access count of a hit is raised by `Crystals.touch`.

    Without an embedder the search is lexical. What is `beside` is searched with it.
    """

    def __init__(
        self,
        crystals: Crystals,
        embedder: Embedder | None = None,
        index: ChromaIndex | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._crystals = crystals
        self._beside = beside
        self._connection = crystals.connection
        self._duplicates = HiddenDuplicates(crystals)
        self._embedder = embedder
        self._index = index

    def search(
        self,
        query: str,
        now: datetime,
        *,
        limit: int = 8,
        filters: Filters = EVERYTHING,
        hormones: Hormones | None = None,
        by_value: bool = True,
    ) -> Findings:
        """Return the crystals that answer the query best, at most `limit`; any string is a query.

        With `by_value` what holds now, or was said later about the same, stands before an older one; what holds is
        brought in if the query's words do not find it. But whoever asks for a text in its own words wants that one.
        Events of hormones are then found by a query that names these alone.
        """
        question = read_question(query, self._speakers(names_in(query)), now)
        vector = self._vector(question)
        words = self._words(question)
        crystals, signals, usual = self._read(question, vector, words, limit, filters)
        matches = {key: relevance(known) for key, known in signals.items()}
        shown = self._without_duplicates(query, crystals, matches)
        found = {crystals[key].id: (crystals[key], signals[key], match) for key, match in shown.items()}
        if self._beside is not None:
            found = self._matches_beside(self._beside, question, words, vector) | found
        if by_value and not asks_for_hormones(query):
            found = {key: one for key, one in found.items() if not is_hormone_event(one[0].text)}
        found = _answers_first(query, found, usual)
        ranked = order(((crystal, match) for crystal, _, match in found.values()), now, hormones)
        if not by_value or (ranked and asked_word_for_word(query, ranked[0][0].text)):
            current = [Ranked(crystal, score) for crystal, score in ranked]
        else:
            keys = {crystal.id: key for key, crystal in crystals.items()}
            asked = wanted_by(query, question.periods)
            first = ranked[:limit]  # what is known to hold is brought in, and nothing else pushes a result out
            current = CurrentValues(self._crystals).in_order(first, keys, asked, filters)
        hits = []
        likely = 0.0
        for one in reversed(current[:limit]):  # who stands before another is at least as likely an answer
            known, match = found[one.crystal.id][1:] if one.crystal.id in found else (None, 0.0)
            likely = max(likely, score(known, usual) if known else 0.0)
            hits.append(Hit(one.crystal, likely, age_days(one.crystal, now), one.superseded_by, known, match))
        arms = ("lexical",) if vector is None else ("lexical", "dense")
        return Findings(tuple(reversed(hits)), likely >= GOOD, arms, usual)

    def candidates(self, query: str, now: datetime) -> list[tuple[Crystal, Signals]]:
        """Return what a search looks at, each with its signals, without duplicates being hidden."""
        question = read_question(query, self._speakers(names_in(query)), now)
        words = self._words(question)
        crystals, signals, _ = self._read(question, self._vector(question), words, CANDIDATES, EVERYTHING)
        return [(crystal, signals[key]) for key, crystal in crystals.items()]

    def _read(
        self,
        question: Question,
        vector: "NDArray[np.float32] | None",
        words: "_Words",
        limit: int,
        filters: Filters,
    ) -> tuple[Mapping[int, Crystal], dict[int, Signals], float | None]:
        """Return the candidates that match best, by row, their signals, and the cosine of unrelated ones."""
        wanted = max(CANDIDATES, limit)
        allowed = condition(filters)
        by_words = full_text.nearest(self._connection, words.sought, wanted, *allowed)
        by_meaning = [] if vector is None else self._nearest(vector, wanted, *allowed)
        about = surroundings(self._connection, {*by_words, *by_meaning}, *allowed)
        signals = self._signals(question, about, _word_matches(self._crystals, words, about.all_keys()), vector)
        shortlist = sorted(signals, key=lambda key: -relevance(signals[key]))[: max(SHORTLIST, 4 * limit)]
        crystals = self._crystals.by_keys(shortlist)
        usual = None if vector is None else unrelated(known.cosine for known in signals.values())
        return crystals, {key: signals[key] for key in crystals}, usual

    def rank_of(self, keywords: str, crystal_id: str, now: datetime, within: int = 10) -> int | None:
        """Return the place (from 1) at which a search for these keywords finds the crystal; None beyond `within`."""
        hits = self.search(keywords, now, limit=within, by_value=False).hits
        return next((place for place, hit in enumerate(hits, 1) if hit.crystal.id == crystal_id), None)

    def _vector(self, question: Question) -> "NDArray[np.float32] | None":
        embedder = self._embedder
        known = self._crystals.vectors
        if embedder is None or not question.words or known.model() != embedder.name or known.are_few():
            return None
        vectors = embedder.embed([question.topic], questions=True)
        return vectors.reshape(-1)

    def _speakers(self, names: Iterable[str]) -> list[str]:
        """Return which of these words are the name of a speaker, or its first word."""
        # "!" follows the blank, so only names that go on with a blank lie between.
        statement = "SELECT 1 FROM crystals WHERE speaker <> '' AND speaker BETWEEN ?1 AND ?1 || '!' LIMIT 1"
        return [name for name in names if self._connection.execute(statement, (name,)).fetchone()]

    def _nearest(self, vector: "NDArray[np.float32]", k: int, condition: str, values: Sequence[object]) -> list[int]:
        """Return the rows nearest in meaning."""
        (found,) = self._crystals.vectors.nearest.to(vector.reshape(1, -1), k, condition, values, self._index)
        return list(found)

    def frequency(self, words: Sequence[str]) -> dict[str, int]:
        """In how many of the searched crystals each of these words occurs; see `full_text.frequency`."""
        counts = full_text.frequency(self._connection, words)
        if self._beside is None:
            return counts
        more = full_text.frequency(self._beside.connection, words)
        return {word: count + more[word] for word, count in counts.items()}

    def _words(self, question: Question) -> "_Words":
        more = len(self._beside.keys) if self._beside else 0
        return _Words.of(self.frequency(question.words), self._crystals.newest() + more)

    def _matches_beside(
        self, beside: Beside, question: Question, words: "_Words", vector: "NDArray[np.float32] | None"
    ) -> dict[str, tuple[Crystal, Signals, float]]:
        """Return the crystals beside the stored ones, by id, with signals and relevance by the same measures."""
        crystals, cosines = beside.crystals.by_keys(beside.keys), dict[int, float]()
        if vector is not None:
            cosines = beside.crystals.vectors.cosines(vector, crystals)
        held_words = _word_matches(beside.crystals, words, crystals)
        found = {}
        for key, crystal in crystals.items():
            near = coverage(words.shares, held_words.window(key, ()))
            cosine = near if vector is None else cosines.get(key, 0.0)
            signals = Signals(
                cosine=cosine,
                near=near,
                beside=ALONE * cosine,
                session=ALONE * near,
                speaker=crystal.speaker.partition(" ")[0] in question.names,
                reply=_is_reply(question, crystal.speaker),
                period=max((period.fit(crystal.created_at) for period in question.periods), default=0.0),
            )
            found[crystal.id] = (crystal, signals, relevance(signals))
        return found

    def _without_duplicates(
        self, query: str, crystals: Mapping[int, Crystal], matches: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the matches without hidden duplicates whose canonical crystal matches about as well.

        A duplicate that is shown has faded: its canonical crystal goes first. One that is asked for word for word is
        shown.
        """
        shown = dict(matches)
        for duplicate, canonical in self._duplicates.survivors(matches).items():
            shown[duplicate] *= FADED
            is_covered = shown[duplicate] <= matches.get(canonical, -1.0)
            if is_covered and not asked_word_for_word(query, crystals[duplicate].text):
                del shown[duplicate]
        return shown

    def _signals(
        self,
        question: Question,
        about: Surroundings,
        held_words: "_WordMatches",
        vector: "NDArray[np.float32] | None",
    ) -> dict[int, Signals]:
        """Return the signals of each candidate that do not need its text."""
        by_session = held_words.by_session(about)
        rings = {key: about.window(key) for key in about.rows}
        near = {key: coverage(held_words.shares, held_words.window(key, ring)) for key, ring in rings.items()}
        cosines = near if vector is None else self._crystals.vectors.cosines(vector, about.rows)
        found = {}
        for key, row in about.rows.items():
            cosine, ring, speaker = cosines.get(key, 0.0), rings[key], row.speaker
            found[key] = Signals(
                cosine=cosine,
                near=near[key],
                beside=_beside(ring, cosines) if ring else ALONE * cosine,
                session=by_session.get(row.session, 0.0) if ring else ALONE * near[key],
                speaker=bool(question.names) and speaker.partition(" ")[0] in question.names,
                period=max(period.fit(row.created_at) for period in question.periods) if question.periods else 0.0,
                reply=_is_reply(question, speaker),
            )
        return found


def _answers_first(
    query: str, found: dict[str, tuple[Crystal, Signals, float]], usual: float | None
) -> dict[str, tuple[Crystal, Signals, float]]:
    """Return the same, with a text that merely asks the query again behind all that answers it well.

    Whoever asks the same in every session would find the question in place of the answer.
    """
    again = {key for key, (crystal, _, _) in found.items() if asks_again(query, crystal.text)}
    if not again:
        return found
    good = [match for key, (_, known, match) in found.items() if key not in again and score(known, usual) >= GOOD]
    behind = FADED * min(good, default=1.0 / FADED)
    return found | {key: (*found[key][:2], min(found[key][2], behind)) for key in again}


def _beside(ring: Iterable[tuple[int, int]], cosines: Mapping[int, float]) -> float:
    """Return the better cosine of the direct neighbours."""
    return max([cosines.get(other, 0.0) for other, offset in ring if offset in (-1, 1)], default=0.0)


def _is_reply(question: Question, speaker: str) -> bool:
    """Return whether an agent says it, and is not asked about what an agent said."""
    return not question.asks_reply and speaker.casefold() in AGENT_NAMES


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a query: those that are searched for, then those that occur nowhere, with the weight of each."""

    sought: Sequence[str]
    shares: Sequence[float]

    @classmethod
    def of(cls, counts: Mapping[str, int], total: int) -> Self:
        """Return the words, each in so many of `total` texts. One that occurs nowhere counts as not found."""
        sought = full_text.within_budget(counts)
        count = [counts[word] for word in (*sought, *(word for word, count in counts.items() if not count))]
        return cls(sought, shares(count, total))


@dataclass(frozen=True, slots=True)
class _WordMatches:
    """The weight of each word; by row, which words it holds (as bits), their factor there and in its neighbours."""

    shares: Sequence[float]
    rows: Mapping[int, tuple[int, float, float]]

    def window(self, key: int, others: Iterable[tuple[int, int]]) -> list[tuple[int, float]]:
        """(words, weight) of a row and of its neighbours, as far as they hold any word."""
        rows = self.rows
        about = [
            (there[0], there[2] * CONTEXT_WEIGHTS[offset])
            for other, offset in others
            if (there := rows.get(other)) is not None
        ]
        return [*about, rows[key][:2]] if key in rows else about

    def by_session(self, about: Surroundings) -> dict[str, float]:
        """Return how much of the query's words the candidates of each session hold together.

        A word weighs as it is rare among the sessions; one that every session holds weighs nothing.
        """
        held: dict[str, int] = defaultdict(int)
        for key, row in about.rows.items():
            if row.session:
                held[row.session] |= self.rows.get(key, _NOTHING)[0]
        weights = shares(
            [sum(words >> bit & 1 for words in held.values()) for bit in range(len(self.shares))], len(held)
        )
        return {session: coverage(weights, [(words, 1.0)]) for session, words in held.items()}


def _word_matches(crystals: Crystals, words: _Words, keys: Iterable[int]) -> _WordMatches:
    """Return which words occur in which of these rows."""
    held_words = full_text.matching_words(crystals.connection, words.sought, keys)
    lengths = crystals.lengths(held_words)
    rows = {}
    for key, length in lengths.items():
        factor = word_weight(length, coverage(words.shares, [(held_words[key], 1.0)]))
        rows[key] = (held_words[key], factor, factor * nearby_weight(length))
    return _WordMatches(words.shares, rows)


def condition(filters: Filters) -> tuple[str, tuple[object, ...]]:
    """Return the filters as SQL over the table `crystals`, with its values; empty when there are none."""
    enough = [trust.value for trust in Trust if filters.trust is None or trust.rank >= filters.trust.rank]
    conditions = (
        ("crystals.origin = ?", filters.origin),
        ("crystals.kind = ?", filters.kind),
        ("crystals.key IN (SELECT crystal FROM occurrences WHERE session = ?)", filters.session),
        ("crystals.speaker = ?", filters.speaker),
        ("crystals.created_at >= ?", optional_text(filters.since)),
        ("crystals.created_at < ?", optional_text(filters.until)),
        (f"crystals.trust {_LISTED}", None if filters.trust is None else json.dumps(enough)),
    )
    given = [(sql, value) for sql, value in conditions if value is not None]
    return " AND ".join(sql for sql, _ in given), tuple(value for _, value in given)
