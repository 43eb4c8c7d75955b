"""Searcher: answers memory_search with one query to each index, then bounded work on the results.

The candidates are the best results of both indexes and their neighbours, because the answer often stands next to the
text that matches. Their signals are computed from rows looked up by key, so the cost does not grow with the store.
Nothing is written.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, NamedTuple

from state.crystals.crystal import Crystal, Kind, Origin
from state.crystals.duplicates import asked_word_for_word
from state.search.query import Question, asks_again, cuts_of, names_in, read_question
from state.search.ranking import (
    ALONE,
    ANSWERED,
    CANDIDATES,
    CONTEXT_WEIGHTS,
    CUT,
    FADED,
    GOOD,
    HELD,
    LIKELY,
    Filters,
    Findings,
    Hit,
    Looked,
    Signals,
    age_days,
    coverage,
    matches_of,
    nearby_weight,
    order,
    relevance,
    score,
    shares,
    unrelated,
    with_parts,
    word_weight,
)
from state.search.updates import Wanted, are_near, in_order, wanted_by
from state.signals.hormones import Hormones, asks_for_hormones, is_hormone_event
from state.stores.crystals import full_text
from state.stores.crystals.beneath import Lines, lines_of, told_beneath
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.nearest import ChromaIndex
from state.stores.crystals.neighbours import Row, Surroundings, read_rows, surroundings
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import memory_database, optional_text
from state.stores.vectors.embedder import Embedder
from state.trust import AGENT_NAMES, Trust
from state.zone import local

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Texts read per search: more than are shown, because duplicates are hidden and near ties are decided by the text.
SHORTLIST = 40
EVERYTHING = Filters()
# Among the first LOOKED_AT results, a later note is moved directly above an earlier one if they are near and the
# lower of their scores is at least NEARLY times the higher. Turns of conversations keep their order: everything in
# them is near everything, and moving them harmed eight first places for each that it mended.
LOOKED_AT = 16
NEARLY = 0.6
# The parts of a question speak of two things if their cosine is below this.
APART = 0.2
_NO_PERSON = (Trust.AGENT, Trust.TOOL)
_LISTED = "IN (SELECT value FROM json_each(?))"
_Found = dict[str, tuple[Crystal, Signals, float]]


class Beside:
    """Crystals searched as if they were stored, but kept in a database in memory, so no lock is needed.

    They are ranked without neighbours of a session. Close it after use.
    """

    def __init__(self, crystals: Iterable[Crystal], embedder: Embedder | None) -> None:
        self.connection = memory_database()
        self.crystals = Crystals(self.connection)
        self.crystals.learn(crystals)
        self.keys = range(1, self.crystals.newest() + 1)
        if embedder is not None and self.keys:
            self.crystals.vectors.embed_pending(embedder, len(self.keys))

    def close(self) -> None:
        """Close the in-memory database."""
        self.connection.close()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with its searched words, the weight of each word, and its vector.

    `shares` holds the weights of the searched words, then those of words that occur nowhere. `scale` is the slope and
    shift of the embedder's calibration, `zone` the owner's. `texts` counts what is searched.
    """

    question: Question
    sought: Sequence[str]
    shares: Sequence[float]
    vector: "NDArray[np.float32] | None"
    scale: tuple[float, float]
    zone: tzinfo
    texts: int

    def cosines(self, crystals: Crystals, near: dict[int, float]) -> dict[int, float]:
        """Return the calibrated cosines of the rows of `near` to the question.

        Without an embedder, return `near` itself: the word coverage stands in.
        """
        if self.vector is None:
            return near
        slope, shift = self.scale
        return {key: slope * cosine + shift for key, cosine in crystals.vectors.cosines(self.vector, near).items()}

    def signals(
        self,
        said: Crystal | Row,
        near: float,
        cosine: float,
        beside: float | None = None,
        session: float = 0.0,
        *,
        instruction: bool = False,
    ) -> Signals:
        """Return the signals of a text; without `beside` it is treated as standing alone."""
        question, speaker = self.question, said.speaker
        return Signals(
            cosine=cosine,
            near=near,
            beside=ALONE * cosine if beside is None else beside,
            session=session,
            speaker=bool(question.names) and speaker.partition(" ")[0] in question.names,
            period=max((period.fit(local(said.created_at, self.zone)) for period in question.periods), default=0.0),
            # Texts by an agent count less, unless the question asks what an agent said.
            reply=not question.asks_reply and speaker.casefold() in AGENT_NAMES,
            instruction=instruction,
        )


class _Answers(NamedTuple):
    """The results of one question, best first, each with its probability of being an answer.

    `usual` is the cosine of unrelated texts, None without an embedder; `closest` is the best `score`; for `few`, see
    `Looked`; `over` counts what was left out as superseded, by the id of what holds, and as answered, by "".
    """

    hits: list[Hit]
    usual: float | None
    closest: float
    few: bool
    over: Counter[str]


class Searcher:
    """Searches one workspace, and `beside` with it. Without an embedder the search is lexical.

    It only reads: `Crystals.touch` raises the access count of a hit.
    """

    def __init__(
        self,
        crystals: Crystals,
        embedder: Embedder | None = None,
        index: ChromaIndex | None = None,
        beside: Beside | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        self._crystals = crystals
        self._zone = zone
        self._beside = beside
        self._connection = crystals.connection
        self._embedder = embedder
        self._index = index
        self._ahead: dict[str, NDArray[np.float32]] = {}

    def expect(self, queries: Sequence[str]) -> None:
        """Embed these coming queries in one batch, which takes a fraction of the time."""
        if queries and (embedder := self._usable()) is not None:
            self._ahead.update(zip(queries, embedder.embed(queries, questions=True), strict=True))

    def search(
        self,
        query: str,
        now: datetime,
        *,
        limit: int = 8,
        filters: Filters = EVERYTHING,
        hormones: Hormones | None = None,
        by_value: bool = True,
        everything: bool = False,
    ) -> Findings:
        """Return at most `limit` crystals that are likely to answer the query; any string is a valid query.

        `everything` includes unlikely, superseded and answered ones too, and questions in their place; otherwise
        what only asks is apart. If the query has two parts, the answers to each part are included.

        With `by_value`, a note that holds now, or was said later about the same subject, comes before an older one,
        and what holds is added even if the query's words do not find it, unless the query is a text's own words.
        With `by_value`, hormone events are found only by queries that name hormones.
        """
        whole, *parts = (
            self._answers(one, now, limit, filters, hormones, by_value=by_value, everything=everything)
            for one in (query, *self._parts(query))
        )
        hits = with_parts(whole.hits, [part.hits for part in parts], limit)
        # A higher place means at least as high a probability.
        chances = [*accumulate((hit.score for hit in reversed(hits)), max)]
        hits = [replace(hit, score=chance) for hit, chance in zip(hits, reversed(chances), strict=True)]
        # The whole question decides whether there is an answer: the few words of a part are close to many texts.
        by_meaning = whole.usual is not None
        is_answered = whole.closest >= ANSWERED[by_meaning]
        count = len(hits) if everything else _likely(hits, is_answered=is_answered, few=whole.few)
        arms = ("lexical", "dense") if by_meaning else ("lexical",)
        shown, asking = hits[:count], list[Hit]()
        if by_value and not everything:
            asking = [hit for hit in shown if hit.asks]
            shown = [hit for hit in shown if not hit.asks]
        good = whole.closest >= GOOD
        over = sum(whole.over[hit.crystal.id] for hit in shown) + whole.over[""]
        return Findings(tuple(shown), good, arms, whole.usual, len(hits) - count, tuple(asking), over)

    def _answers(
        self,
        query: str,
        now: datetime,
        limit: int,
        filters: Filters,
        hormones: Hormones | None,
        *,
        by_value: bool,
        everything: bool,
    ) -> "_Answers":
        """Return the answers to a question or to one part of it."""
        asked = self._asked(query, now)
        crystals, signals, matches, usual, looked = self._read(asked, limit, filters)
        shown = self._without_duplicates(query, crystals, matches)
        found = {crystals[key].id: (crystals[key], signals[key], match) for key, match in shown.items()}
        if self._beside is not None:
            found = _found_beside(self._beside, asked) | found
        if by_value and not asks_for_hormones(query):
            found = {id_: one for id_, one in found.items() if not is_hormone_event(one[0].text)}
        lines = lines_of(self._connection, found if by_value else (), filters.until)
        found = self._as_lines(found, lines, filters)
        found = _answers_first(query, found, usual)
        keys = self._crystals.keys(found)
        arrived = sorted(found.values(), key=lambda one: keys.get(one[0].id, 0))
        ranked = order(((crystal, match) for crystal, _, match in arrived), now, hormones)
        best, current, over, answered = [one for one, _ in ranked], dict[str, Crystal](), frozenset[str](), 0
        if by_value and not (ranked and asked_word_for_word(query, best[0].text)):
            wanted = wanted_by(query, asked.question.periods, self._zone)
            if not everything:
                least = CUT * ranked[0][1] if ranked else 0.0
                answered = sum(one.id in lines.answered and match >= least for one, match in ranked)
                ranked = [one for one in ranked if one[0].id not in lines.answered]
            # Only values known to hold are added; nothing else may push a result out.
            best, current = self._by_value(ranked[:limit], lines, wanted, filters)
            over = frozenset() if everything else _over(query, best, current, wanted)
        closest = max((score(found[one.id][1], usual) for one in best[:limit] if one.id in found), default=0.0)
        gone = defaultdict[str, list[Crystal]](list)
        for one in best:
            if one.id in over:
                gone[current[one.id].id].append(one)
        hits: list[Hit] = []
        for crystal in [one for one in best if one.id not in over][:limit]:
            known, match = found[crystal.id][1:] if crystal.id in found else (None, 0.0)
            chance = looked.chance(match, known, by_meaning=usual is not None) if known else 0.0
            hits.append(Hit(crystal, chance, age_days(crystal, now), current.get(crystal.id), known, match))
        if by_value:
            hits = told_beneath(self._crystals, hits, lines, gone, crystals, filters.until)
        counts = Counter({id_: len(those) for id_, those in gone.items()} | {"": answered})
        return _Answers(hits, usual, closest, looked.few, counts)

    def candidates(self, query: str, now: datetime) -> list[tuple[Crystal, Signals]]:
        """Return the candidates of a search with their signals; duplicates are not hidden."""
        crystals, signals, *_ = self._read(self._asked(query, now), CANDIDATES, EVERYTHING)
        return [(crystal, signals[key]) for key, crystal in crystals.items()]

    def rank_of(self, keywords: str, crystal_id: str, now: datetime, within: int = 10) -> int | None:
        """Return the place (from 1) of this crystal in a search for these keywords; None beyond `within`."""
        hits = self.search(keywords, now, limit=within, by_value=False, everything=True).hits
        return next((place for place, hit in enumerate(hits, 1) if hit.crystal.id == crystal_id), None)

    def frequency(self, words: Sequence[str]) -> dict[str, int]:
        """Count the searched crystals that hold each of these words; see `full_text.frequency`."""
        counts = full_text.frequency(self._connection, words)
        more = full_text.frequency(self._beside.connection, words) if self._beside else {}
        return {word: count + more.get(word, 0) for word, count in counts.items()}

    def _parts(self, query: str) -> tuple[str, ...]:
        """Return the two least similar parts of a query if they speak of two things; otherwise nothing."""
        cuts = cuts_of(query)
        if not cuts or (embedder := self._usable()) is None:
            return ()
        vectors = embedder.embed([part for cut in cuts for part in cut], questions=True)
        alike = [float(one @ other) for one, other in zip(vectors[::2], vectors[1::2], strict=True)]
        return cuts[alike.index(min(alike))] if min(alike) < APART else ()

    def _usable(self) -> Embedder | None:
        """Return the embedder if the store holds enough vectors of its model."""
        known = self._crystals.vectors
        is_usable = self._embedder is not None and known.model() == self._embedder.name and not known.are_few()
        return self._embedder if is_usable else None

    def _asked(self, query: str, now: datetime) -> _Asked:
        # Keep only names of speakers. "!" is the character after the blank, so the range holds the name itself and
        # names that continue with a blank.
        statement = "SELECT 1 FROM crystals WHERE speaker <> '' AND speaker BETWEEN ?1 AND ?1 || '!' LIMIT 1"
        speakers = [name for name in names_in(query) if self._connection.execute(statement, (name,)).fetchone()]
        question = read_question(query, speakers, local(now, self._zone))
        vector, scale = None, (1.0, 0.0)
        if question.words and (embedder := self._usable()) is not None:
            vector = self._ahead.get(question.topic)
            if vector is None:
                vector = embedder.embed([question.topic], questions=True).reshape(-1)
            scale = embedder.calibration.scale
        counts = self.frequency(question.words)
        sought = full_text.within_budget(counts)
        every = [counts[word] for word in sought] + [0 for count in counts.values() if not count]
        total = self._crystals.newest() + (len(self._beside.keys) if self._beside else 0)
        return _Asked(question, sought, shares(every, total), vector, scale, self._zone, total)

    def _read(
        self, asked: _Asked, limit: int, filters: Filters
    ) -> tuple[Mapping[int, Crystal], dict[int, Signals], dict[int, float], float | None, Looked]:
        """Return the best results by row, their signals and matches, the cosine of unrelated texts, what was seen."""
        wanted, vector, usual = max(CANDIDATES, limit), asked.vector, None
        allowed = condition(filters)
        found = set(full_text.nearest(self._connection, asked.sought, wanted, *allowed))
        if vector is not None:
            found.update(*self._crystals.vectors.nearest.to(vector.reshape(1, -1), wanted, *allowed, self._index))
        signals = self._signals(asked, surroundings(self._connection, found, *allowed))
        if vector is not None:
            usual = unrelated(known.cosine for known in signals.values())
        matches = matches_of(signals)
        shortlist = sorted(matches, key=lambda key: -matches[key])[: max(SHORTLIST, 4 * limit)]
        crystals = self._crystals.by_keys(shortlist)
        best = {key: matches[key] for key in crystals}
        looked = Looked.at(matches.values(), asked.texts)
        return crystals, {key: signals[key] for key in crystals}, best, usual, looked

    def _signals(self, asked: _Asked, about: Surroundings) -> dict[int, Signals]:
        """Return the signals of each candidate, computed without its text."""
        held = _HeldWords.of(self._crystals, asked, about.all_keys())
        by_session = held.by_session(about)
        rings = {key: about.window(key) for key in about.rows}
        near = {key: held.near(key, ring) for key, ring in rings.items()}
        cosines = asked.cosines(self._crystals, near)
        found = {}
        for key, row in about.rows.items():
            beside, session = None, 0.0
            instruction = row.kind == Kind.INSTRUCTION and row.trust == Trust.OWNER
            if ring := rings[key]:  # the better of the two direct neighbours counts
                beside = max((cosines.get(other, 0.0) for other, offset in ring if offset in (-1, 1)), default=0.0)
                session = by_session.get(row.session, 0.0)
                # Between people, what one tells the other to do always is a remark like any other.
                said = (about.rows[other] for other, _ in ring if other in about.rows)
                instruction = instruction and any(one.trust in _NO_PERSON for one in said)
            found[key] = asked.signals(
                row, near[key], cosines.get(key, 0.0), beside, session, instruction=instruction
            )
        return found

    def _without_duplicates(
        self, query: str, crystals: Mapping[int, Crystal], matches: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the matches without hidden duplicates whose canonical crystal matches about as well.

        A duplicate that is shown counts as faded, so its canonical crystal comes first. A duplicate whose exact words
        were asked for is shown.
        """
        shown = dict(matches)
        for duplicate, canonical in HiddenDuplicates(self._crystals).survivors(matches).items():
            shown[duplicate] *= FADED
            is_covered = shown[duplicate] <= matches.get(canonical, -1.0)
            if is_covered and not asked_word_for_word(query, crystals[duplicate].text):
                del shown[duplicate]
        return shown

    def _as_lines(self, found: _Found, lines: Lines, filters: Filters) -> _Found:
        """Return the matches with each former wording of a line replaced by its latest one, which inherits its match.

        A note that a line repeats word for word stays a result of its own.
        """
        former = {
            id_: place.crystal
            for id_, place in lines.latest.items()
            if place.crystal != id_ and found[id_][0].origin is Origin.LINE
        }
        if not former:
            return found
        keys = self._crystals.keys(set(former.values()) - found.keys()).values()
        latest = self._crystals.by_keys(read_rows(self._connection, keys, *condition(filters))).values()
        known = {crystal.id: (crystal, Signals(), 0.0) for crystal in latest} | found
        for id_, now in former.items():
            if now in known and known[now][2] < found[id_][2]:
                known[now] = (known[now][0], *found[id_][1:])
        return {id_: one for id_, one in known.items() if id_ not in former}

    def _by_value(
        self, ranked: Sequence[tuple[Crystal, float]], lines: Lines, wanted: Wanted, filters: Filters
    ) -> tuple[list[Crystal], dict[str, Crystal]]:
        """Return the results reordered and with current values added, and the current value of each result by id.

        Texts that the filters exclude are never shown, and the filters' `until` counts as now.
        """
        keys = self._crystals.keys(crystal.id for crystal, _ in ranked)
        shown = {keys[crystal.id]: crystal for crystal, _ in ranked if crystal.id in keys}
        known = Supersessions(self._crystals).among(shown, filters.until)
        pairs = [(pair.older, pair.newer) for pair in known.pairs]
        named = {row for pair in pairs for row in pair} - shown.keys()
        every = shown | self._crystals.by_keys(read_rows(self._connection, named, *condition(filters)))
        pairs = [pair for pair in pairs if every.keys() >= {*pair}]
        scores = {crystal.id: score for crystal, score in ranked}
        # A text that was not found joins the found one that it replaced, or that it preceded at the time asked for.
        missing = [(now, old) for old, now in known.current.items() if {now, old} <= every.keys()]
        missing = [(now, old) for now, old in missing if wanted.is_newer(every[old], every[now])]
        missing += [(old, new) for old, new in pairs if not wanted.is_newer(every[old], every[new])]
        joined = dict(scores)
        for key, beside in missing:
            if key not in shown and beside in shown:
                joined[every[key].id] = max(joined.get(every[key].id, 0.0), scores[shown[beside].id])
        crystals = [crystal for crystal, _ in ranked]
        crystals += [one for key, one in every.items() if key not in shown and one.id in joined]
        # A note that a line said until it was changed follows what the line says now.
        after = ((keys[id_], keys.get(place.crystal)) for id_, place in lines.instead.items() if id_ in keys)
        pairs += [(old, new) for old, new in after if new in shown and (old, new) not in pairs]
        near = [
            pair for pair in self._near(shown, scores, filters.until) if pair not in pairs and pair[::-1] not in pairs
        ]
        updates = [(every[old], every[new]) for old, new in (*pairs, *near)]
        current = {shown[key].id: every[now] for key, now in known.current.items() if key in shown and now in every}
        return in_order(sorted(crystals, key=lambda one: -joined[one.id]), updates, wanted), current

    def _near(
        self, shown: Mapping[int, Crystal], scores: Mapping[str, float], until: datetime | None
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of notes that are close and score nearly alike, the earlier said first."""
        notes = [key for key, one in list(shown.items())[:LOOKED_AT] if one.origin is not Origin.SESSION]
        cosines = self._crystals.vectors.between(notes)
        said = self._crystals.said_last({key for pair in cosines for key in pair}, until)
        for older, newer in combinations(sorted(said, key=lambda key: (said[key], key)), 2):
            worse, better = sorted((scores[shown[older].id], scores[shown[newer].id]))
            if worse >= NEARLY * better and are_near(shown[older], shown[newer], cosines[older, newer]):
                yield older, newer


def _likely(hits: Sequence[Hit], *, is_answered: bool, few: bool) -> int:
    """Return how many results to show: up to the last one that is likely, also beside the best, or holds the words.

    With few candidates, show at least the best, because too little is known to withhold it.
    """
    least = max(LIKELY, CUT * hits[0].score) if hits else LIKELY
    likely = (
        place
        for place, hit in enumerate(hits, 1)
        if (is_answered and hit.score >= least) or (hit.signals and hit.signals.near >= HELD)
    )
    return max(likely, default=min(len(hits), int(few)))


def _over(query: str, best: Sequence[Crystal], current: Mapping[str, Crystal], wanted: Wanted) -> frozenset[str]:
    """Return the results that another one supersedes, unless the question is about what held before.

    A text whose own words were asked for is shown.
    """
    there = {one.id for one in best}
    return frozenset(
        one.id
        for one in best
        if (now := current.get(one.id)) is not None
        and now.id in there
        and wanted.is_newer(one, now)
        and not asked_word_for_word(query, one.text)
    )


def _found_beside(beside: Beside, asked: _Asked) -> _Found:
    """Return the crystals of `beside` by id, with signals and relevance computed in the same way."""
    crystals, held = beside.crystals.by_keys(beside.keys), _HeldWords.of(beside.crystals, asked, beside.keys)
    near = {key: held.near(key, ()) for key in crystals}
    cosines = asked.cosines(beside.crystals, near)
    found = {}
    for key, crystal in crystals.items():
        signals = asked.signals(crystal, near[key], cosines.get(key, 0.0))
        found[crystal.id] = (crystal, signals, relevance(signals))
    return found


def _answers_first(query: str, found: _Found, usual: float | None) -> _Found:
    """Rank texts that merely repeat the query behind all good answers.

    Otherwise somebody who asks the same in every session would find the question instead of the answer.
    """
    again = {key for key, (crystal, _, _) in found.items() if asks_again(query, crystal.text)}
    if not again:
        return found
    good = [match for key, (_, known, match) in found.items() if key not in again and score(known, usual) >= GOOD]
    behind = FADED * min(good, default=1.0 / FADED)
    return found | {key: (*found[key][:2], min(found[key][2], behind)) for key in again}


@dataclass(frozen=True, slots=True)
class _HeldWords:
    """The weight of each word; by row, its words (as bits) and their factors there and for its neighbours."""

    shares: Sequence[float]
    rows: Mapping[int, tuple[int, float, float]]

    @classmethod
    def of(cls, crystals: Crystals, asked: _Asked, keys: Iterable[int]) -> "_HeldWords":
        """Look up which of the words occur in each of these rows."""
        held = full_text.matching_words(crystals.connection, asked.sought, keys)
        lengths = f"SELECT key, length(text) FROM crystals WHERE key {_LISTED}"
        rows = {}
        for key, length in crystals.connection.execute(lengths, (json.dumps(list(held)),)):
            factor = word_weight(length, coverage(asked.shares, [(held[key], 1.0)]))
            rows[key] = (held[key], factor, factor * nearby_weight(length))
        return cls(asked.shares, rows)

    def near(self, key: int, others: Iterable[tuple[int, int]]) -> float:
        """Return the share of the words that a row holds together with its neighbours, given as (row, offset)."""
        rows = self.rows
        window = [
            (there[0], there[2] * CONTEXT_WEIGHTS[offset])
            for other, offset in others
            if (there := rows.get(other)) is not None
        ]
        return coverage(self.shares, [*window, rows[key][:2]] if key in rows else window)

    def by_session(self, about: Surroundings) -> dict[str, float]:
        """Return, by session, the share of the query's words that its candidates hold together.

        A word weighs more the fewer sessions hold it; one that every session holds weighs nothing.
        """
        held: dict[str, int] = defaultdict(int)
        for key, row in about.rows.items():
            if row.session:
                held[row.session] |= self.rows[key][0] if key in self.rows else 0
        weights = shares(
            [sum(words >> bit & 1 for words in held.values()) for bit in range(len(self.shares))], len(held)
        )
        return {session: coverage(weights, [(words, 1.0)]) for session, words in held.items()}


def condition(filters: Filters) -> tuple[str, tuple[object, ...]]:
    """Return the filters as SQL over the table `crystals`, with its values; empty without filters."""
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
