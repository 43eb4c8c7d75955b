"""memory_search: one question to each index, then bounded work on what they answered.

Both indexes give their best; the neighbours of these join them, for the text that answers often stands beside the
one that matches. Each candidate's signals are then computed from rows that are looked up by key, so the cost does
not follow the size of the store. Nothing is written.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from state.asked_time import tells_time
from state.crystal import Crystal, Trust
from state.duplicates import asked_word_for_word
from state.question import Question, ends_as_question, names_in, read_question
from state.ranking import (
    FADED,
    K1,
    REACH,
    Filters,
    Findings,
    Hit,
    Signals,
    age_days,
    coverage,
    is_good,
    order,
    rarity,
    relevance,
    shares,
    telling,
)
from state.stores import lexical
from state.stores.crystal_vectors import Index
from state.stores.crystals import Crystals
from state.stores.database import to_text
from state.stores.embeddings import Embedder
from state.stores.surroundings import Surroundings, surroundings
from state.stores.twins import Twins

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from state.hormones import Hormones

CANDIDATES = 75
# So many of them are read; what a text itself says moves it by less than lies between the first and these.
SHORTLIST = 100
# So many that pass a filter are compared one by one. Of more the index is asked, which knows nothing of filters: for
# more and more, until enough of what it answers passes.
_COMPARED = 2_000
_ASKED_FOR = (600, 2_400, 9_600)
_ENOUGH = 20
EVERYTHING = Filters()
_NOTHING = (0, 0.0)
_LISTED = "IN (SELECT value FROM json_each(?))"


class Searcher:
    """Searches one workspace. Reads only: the access count of a hit is raised by `Crystals.touch`.

    Without an embedder the search is lexical; without an index the vectors of state.db are compared one by one.
    """

    def __init__(self, crystals: Crystals, embedder: Embedder | None = None, index: Index | None = None) -> None:
        self._crystals = crystals
        self._connection = crystals.connection
        self._twins = Twins(crystals)
        self._embedder = embedder
        self._index = index

    def search(
        self,
        query: str,
        now: datetime,
        *,
        limit: int = 8,
        filters: Filters = EVERYTHING,
        hormones: "Hormones | None" = None,
    ) -> Findings:
        """The crystals that answer the query best, at most `limit`; any string is a query."""
        wanted = max(CANDIDATES, limit)
        question = read_question(query, self._speakers(names_in(query)), now)
        vector = self._vector(question)
        arms = ("lexical",) if vector is None else ("lexical", "dense")
        allowed = _condition(filters)
        counts = lexical.frequency(self._connection, question.words)
        words = lexical.affordable(counts)
        by_words = lexical.nearest(self._connection, words, wanted, *allowed)
        by_meaning = [] if vector is None else self._nearest(vector, wanted, *allowed)
        about = surroundings(self._connection, {*by_words, *by_meaning}, *allowed)
        signals = self._signals(question, about, self._held(counts, words, by_words, about), vector)
        shortlist = sorted(signals, key=lambda key: -relevance(signals[key]))[: max(SHORTLIST, 4 * limit)]
        crystals = self._crystals.by_keys(shortlist)
        matches = {key: relevance(_read(question, crystal, signals[key])) for key, crystal in crystals.items()}
        shown = self._without_twins(query, crystals, matches)
        ranked = order([(crystals[key], match) for key, match in shown.items()], now, hormones)
        return Findings(
            hits=tuple(Hit(crystal, score, age_days(crystal, now)) for crystal, score in ranked[:limit]),
            good=is_good(signals.values(), arms),
            arms=arms,
        )

    def rank_of(self, keywords: str, crystal_id: str, now: datetime, within: int = 10) -> int | None:
        """The place (from 1) at which a search for these keywords finds the crystal; None beyond `within`."""
        hits = self.search(keywords, now, limit=within).hits
        return next((place for place, hit in enumerate(hits, 1) if hit.crystal.id == crystal_id), None)

    def _vector(self, question: Question) -> "NDArray[np.float32] | None":
        embedder = self._embedder
        if embedder is None or not question.words or self._crystals.vectors.model() != embedder.name:
            return None
        vectors = embedder.embed([question.topic])
        return vectors.reshape(-1)

    def _speakers(self, names: Iterable[str]) -> list[str]:
        """Which of these words are the name of a speaker, or its first word."""
        # "!" follows the blank, so only names that go on with a blank lie between.
        statement = "SELECT 1 FROM crystals WHERE speaker <> '' AND speaker BETWEEN ?1 AND ?1 || '!' LIMIT 1"
        return [name for name in names if self._connection.execute(statement, (name,)).fetchone()]

    def _nearest(self, vector: "NDArray[np.float32]", k: int, condition: str, values: Sequence[object]) -> list[int]:
        """The rows nearest in meaning. What the index has not been told about is compared one by one."""
        vectors = self._crystals.vectors
        if self._index is None:
            return vectors.exact_nearest(vector, k, condition, values)
        passing = self._all_that_pass(condition, values) if condition else None
        if passing is not None:
            return vectors.exact_nearest(vector, k, f"crystals.key {_LISTED}", (json.dumps(passing),))
        known: list[int] = []
        for asked in _ASKED_FOR if condition else (k,):
            answer = self._index.nearest(vector, max(k, asked))
            known = self._passing([id_ for id_, _ in answer], condition, values)
            if len(known) >= _ENOUGH or len(answer) < asked:
                break
        untold = " AND ".join(filter(None, (condition, "crystals.key IN (SELECT crystal FROM to_index)")))
        return [*known, *vectors.exact_nearest(vector, k, untold, values)]

    def _all_that_pass(self, condition: str, values: Sequence[object]) -> list[int] | None:
        """Every row that passes; None when they are too many to be compared one by one."""
        # A session's rows are looked up; for the rest SQLite would choose an index that makes it read the rows.
        hint = "" if "occurrences" in condition else "INDEXED BY crystals_by_time"
        statement = f"SELECT key FROM crystals {hint} WHERE {condition} LIMIT {_COMPARED + 1}"
        found = [int(row[0]) for row in self._connection.execute(statement, tuple(values))]
        return found if len(found) <= _COMPARED else None

    def _passing(self, ids: Sequence[str], condition: str, values: Sequence[object]) -> list[int]:
        statement = f"SELECT key FROM crystals WHERE id {_LISTED}" + (f" AND {condition}" if condition else "")
        return [int(row[0]) for row in self._connection.execute(statement, (json.dumps(ids), *values))]

    def _held(
        self, counts: Mapping[str, int], words: Sequence[str], by_words: Mapping[int, float], about: Surroundings
    ) -> "_Held":
        """Which words stand in which row. A word that stands nowhere counts too: it is what was not found."""
        total = int(self._connection.execute("SELECT coalesce(max(key), 0) FROM crystals").fetchone()[0])
        asked = [counts[word] for word in (*words, *(word for word, count in counts.items() if not count))]
        weights = shares(asked, total)
        most = (K1 + 1.0) * sum(rarity(count, total) for count in asked)
        held = lexical.held(self._connection, words, about.all_keys())
        lengths = self._crystals.lengths(held)
        return _Held(
            shares=weights,
            rows={
                key: (held[key], telling(length, coverage(weights, [(held[key], 1.0)])))
                for key, length in lengths.items()
            },
            own={key: match / most for key, match in by_words.items()},
        )

    def _without_twins(
        self, query: str, crystals: Mapping[int, Crystal], matches: Mapping[int, float]
    ) -> dict[int, float]:
        """The matches without those for which another one stands that matches about as well.

        A twin that is shown has faded: its survivor goes first. One that is asked for word for word is shown.
        """
        shown = dict(matches)
        for twin, survivor in self._twins.survivors(matches).items():
            shown[twin] *= FADED
            stood_for = shown[twin] <= matches.get(survivor, -1.0)
            if stood_for and not asked_word_for_word(query, crystals[twin].text):
                del shown[twin]
        return shown

    def _signals(
        self, question: Question, about: Surroundings, held: "_Held", vector: "NDArray[np.float32] | None"
    ) -> dict[int, Signals]:
        """What is known of each candidate without its text."""
        cosines = {} if vector is None else self._crystals.vectors.cosines(vector, about.rows)
        session_shares, sessions = held.by_session(about)
        found = {}
        for key, row in about.rows.items():
            ring = about.ring(key)
            found[key] = Signals(
                cosine=cosines.get(key, 0.0),
                near=coverage(held.shares, held.ring(key, ring)),
                own=held.own.get(key, 0.0),
                session=coverage(session_shares, [(sessions.get(row.session, 0), 1.0)]),
                before=max((cosines.get(other, 0.0) for other, offset in ring if offset == -1), default=0.0),
                after=max((cosines.get(other, 0.0) for other, offset in ring if offset == 1), default=0.0),
                speaker=row.speaker.partition(" ")[0] in question.names,
                period=max((period.fit(row.created_at) for period in question.periods), default=0.0),
            )
        return found


@dataclass(frozen=True, slots=True)
class _Held:
    """What each word tells; by row, which of them it holds (as bits) and what they count there.

    `own` is the BM25 of a row as a share of the most that the words can give.
    """

    shares: Sequence[float]
    rows: Mapping[int, tuple[int, float]]
    own: Mapping[int, float]

    def ring(self, key: int, others: Iterable[tuple[int, int]]) -> list[tuple[int, float]]:
        """(words held, what they count) of a row and of those about it, as far as they hold any."""
        about = [(self.rows[other], REACH[offset]) for other, offset in others if other in self.rows]
        if key in self.rows:
            about.append((self.rows[key], 1.0))
        return [(words, factor * reach) for (words, factor), reach in about]

    def by_session(self, about: Surroundings) -> "tuple[list[float], dict[str, int]]":
        """The same over the candidates' sessions: a word of every session tells none of them from another."""
        held: dict[str, int] = defaultdict(int)
        for key, row in about.rows.items():
            if row.session:
                held[row.session] |= self.rows.get(key, _NOTHING)[0]
        counts = [sum(words >> bit & 1 for words in held.values()) for bit in range(len(self.shares))]
        return shares(counts, len(held)), held


def _read(question: Question, crystal: Crystal, signals: Signals) -> Signals:
    """The signals with what the text itself says."""
    return replace(
        signals,
        tells_time=question.asks_when and tells_time(crystal.text),
        asks=ends_as_question(crystal.text),
    )


def _condition(filters: Filters) -> tuple[str, tuple[object, ...]]:
    """The filters as SQL over the table `crystals`, with its values; empty when there are none."""
    given: list[tuple[str, object]] = []
    if filters.origin is not None:
        given.append(("crystals.origin = ?", filters.origin.value))
    if filters.kind is not None:
        given.append(("crystals.kind = ?", filters.kind.value))
    if filters.session is not None:
        given.append(("crystals.key IN (SELECT crystal FROM occurrences WHERE session = ?)", filters.session))
    if filters.speaker is not None:
        given.append(("crystals.speaker = ?", filters.speaker))
    if filters.since is not None:
        given.append(("crystals.created_at >= ?", to_text(filters.since)))
    if filters.until is not None:
        given.append(("crystals.created_at < ?", to_text(filters.until)))
    if filters.trust is not None:
        enough = [trust.value for trust in Trust if trust.rank >= filters.trust.rank]
        given.append((f"crystals.trust {_LISTED}", json.dumps(enough)))
    return " AND ".join(sql for sql, _ in given), tuple(value for _, value in given)
