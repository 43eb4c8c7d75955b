"""Search: answers memory_search with one query to each index, then bounded work on the results.

The candidates are the best results of both indexes and their neighbours, because the answer often stands next to the
text that matches. Their signals are computed from rows looked up by key, so the cost does not grow with the store.
Nothing is written.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from itertools import accumulate, combinations
from typing import NamedTuple

from state.crystals.crystal import Crystal, Origin
from state.crystals.duplicates import asked_word_for_word
from state.search.query import asks_again, cuts_of, names_in, read_question
from state.search.ranking import (
    ANSWERED,
    CANDIDATES,
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
    matches_of,
    order,
    score,
    shares,
    unrelated,
    with_parts,
)
from state.search.updates import Wanted, are_near, in_order, wanted_by
from state.signals.hormones import Hormones, asks_for_hormones, is_hormone_event
from state.stores.crystals import full_text
from state.stores.crystals.beneath import Lines, lines_of, told_beneath
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.neighbours import Sought, read_rows, signals_of
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.moments import optional_text
from state.stores.database.opening import memory_database
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.embedder import Embedder
from state.trust import Trust
from state.zone import local

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
_LISTED = "IN (SELECT value FROM json_each(?))"


@contextmanager
def stored_aside(crystals: Iterable[Crystal], embedder: Embedder | None) -> Iterator[Crystals]:
    """Store these crystals in a database in memory, which needs no lock, to search them as if they were stored."""
    with closing(memory_database()) as connection:
        aside = Crystals(connection)
        aside.learn(crystals)
        if embedder is not None:
            aside.vectors.embed_pending(embedder, aside.newest())
        yield aside


@dataclass(frozen=True, slots=True)
class Searched:
    """What is searched: the crystals of a workspace, and those `aside`, which are ranked without neighbours.

    Without an embedder, or with few vectors of its model, they are searched by words alone. Searching only reads:
    `Crystals.touch` raises the access count of a hit.
    """

    crystals: Crystals
    embedder: Embedder | None = None
    index: VectorIndex | None = None
    aside: Crystals | None = None
    zone: tzinfo = UTC

    def usable(self) -> Embedder | None:
        """Return the embedder if the store holds enough vectors of its model."""
        known = self.crystals.vectors
        is_usable = self.embedder is not None and known.model() == self.embedder.name and not known.are_few()
        return self.embedder if is_usable else None

    def frequency(self, words: Sequence[str]) -> dict[str, int]:
        """Count the searched crystals that hold each of these words; see `full_text.frequency`."""
        counts = full_text.frequency(self.crystals.connection, words)
        more = full_text.frequency(self.aside.connection, words) if self.aside else {}
        return {word: count + more.get(word, 0) for word, count in counts.items()}


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a search is to return; see `search`."""

    now: datetime
    limit: int
    filters: Filters = EVERYTHING
    hormones: Hormones | None = None
    by_value: bool = True
    everything: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """What a search has looked at: the candidates by row, and those that may be shown as hits by id.

    `usual` is the cosine of unrelated texts, None without an embedder.
    """

    candidates: Mapping[int, Crystal]
    hits: dict[str, Hit]
    usual: float | None
    looked: Looked


class _Answers(NamedTuple):
    """The results of one question, best first, each with its probability of being an answer.

    `closest` is the best `score`; for `few`, see `Looked`; `over` counts what was left out as superseded, by the id
    of what holds, and as answered, by "".
    """

    hits: list[Hit]
    usual: float | None
    closest: float
    few: bool
    over: Counter[str]


def search(
    searched: Searched,
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

    `everything` includes unlikely, superseded and answered ones too, and questions in their place; otherwise what
    only asks is apart. If the query has two parts, the answers to each part are included.

    With `by_value`, a note that holds now, or was said later about the same subject, comes before an older one, and
    what holds is added even if the query's words do not find it, unless the query is a text's own words. With
    `by_value`, hormone events are found only by queries that name hormones.
    """
    wish, embedder = _Wish(now, limit, filters, hormones, by_value, everything), searched.usable()
    whole, *parts = (
        _answers(searched, _ask(searched, one, now, embedder), wish) for one in (query, *_split(query, embedder))
    )
    hits = with_parts(whole.hits, [part.hits for part in parts], limit)
    # A higher place means at least as high a probability.
    chances = [*accumulate((hit.score for hit in reversed(hits)), max)]
    hits = [replace(hit, score=chance) for hit, chance in zip(hits, reversed(chances), strict=True)]
    # The whole question decides whether there is an answer: the few words of a part are close to many texts.
    by_meaning = whole.usual is not None
    is_answered = whole.closest >= ANSWERED[by_meaning]
    count = len(hits) if everything else _count_likely(hits, is_answered=is_answered, few=whole.few)
    shown, asking = hits[:count], list[Hit]()
    if by_value and not everything:
        asking = [hit for hit in shown if hit.asks]
        shown = [hit for hit in shown if not hit.asks]
    over = sum(whole.over[hit.crystal.id] for hit in shown) + whole.over[""]
    arms = ("lexical", "dense") if by_meaning else ("lexical",)
    good = whole.closest >= GOOD
    return Findings(tuple(shown), good, arms, whole.usual, len(hits) - count, tuple(asking), over)


def rank_of(searched: Searched, keywords: str, crystal_id: str, now: datetime, within: int = 10) -> int | None:
    """Return the place (from 1) of this crystal in a search for these keywords; None beyond `within`."""
    hits = search(searched, keywords, now, limit=within, by_value=False, everything=True).hits
    return next((place for place, hit in enumerate(hits, 1) if hit.crystal.id == crystal_id), None)


def candidates(searched: Searched, query: str, now: datetime) -> list[tuple[Crystal, Signals]]:
    """Return the candidates of a search with their signals; duplicates are not hidden."""
    sought = _ask(searched, query, now, searched.usable())
    signals, _ = _candidates(searched, sought, CANDIDATES, EVERYTHING)
    best = _shortlist(matches_of(signals), CANDIDATES)
    return [(crystal, signals[key]) for key, crystal in searched.crystals.by_keys(best).items()]


# --- what is asked


def _split(query: str, embedder: Embedder | None) -> tuple[str, ...]:
    """Return the two least similar parts of a query if they speak of two things; otherwise nothing."""
    cuts = cuts_of(query)
    if not cuts or embedder is None:
        return ()
    vectors = embedder.embed([part for cut in cuts for part in cut], questions=True)
    alike = [float(one @ other) for one, other in zip(vectors[::2], vectors[1::2], strict=True)]
    return cuts[alike.index(min(alike))] if min(alike) < APART else ()


def _ask(searched: Searched, query: str, now: datetime, embedder: Embedder | None) -> Sought:
    # Keep only names of speakers. "!" is the character after the blank, so the range holds the name itself and
    # names that continue with a blank.
    statement = "SELECT 1 FROM crystals WHERE speaker <> '' AND speaker BETWEEN ?1 AND ?1 || '!' LIMIT 1"
    connection = searched.crystals.connection
    speakers = [name for name in names_in(query) if connection.execute(statement, (name,)).fetchone()]
    question = read_question(query, speakers, local(now, searched.zone))
    vector, scale = None, (1.0, 0.0)
    if question.words and embedder is not None:
        vector = embedder.embed([question.topic], questions=True).reshape(-1)
        scale = embedder.calibration.scale
    counts = searched.frequency(question.words)
    words = full_text.within_budget(counts)
    every = [counts[word] for word in words] + [0 for count in counts.values() if not count]
    texts = searched.crystals.newest() + (searched.aside.newest() if searched.aside else 0)
    return Sought(query, question, words, shares(every, texts), vector, scale, searched.zone, texts)


# --- what is found


def _candidates(
    searched: Searched, sought: Sought, limit: int, filters: Filters
) -> tuple[dict[int, Signals], float | None]:
    """Return the signals of the best rows of both indexes and what is around, and the cosine of unrelated texts."""
    crystals, wanted, allowed = searched.crystals, max(CANDIDATES, limit), condition(filters)
    rows = set(full_text.nearest(crystals.connection, sought.words, wanted, *allowed))
    if sought.vector is None:
        return signals_of(crystals, sought, rows, *allowed), None
    rows.update(crystals.vectors.nearest.to(sought.vector, wanted, *allowed, searched.index))
    signals = signals_of(crystals, sought, rows, *allowed)
    return signals, unrelated(known.cosine for known in signals.values())


def _shortlist(matches: Mapping[int, float], limit: int) -> list[int]:
    return sorted(matches, key=lambda key: -matches[key])[: max(SHORTLIST, 4 * limit)]


def _look(searched: Searched, sought: Sought, wish: _Wish) -> _Found:
    """Return the best candidates without hidden duplicates and, unless they are asked for, hormone events."""
    signals, usual = _candidates(searched, sought, wish.limit, wish.filters)
    matches = matches_of(signals)
    looked = Looked.at(matches.values(), sought.texts)
    best = searched.crystals.by_keys(_shortlist(matches, wish.limit))
    shown = _without_duplicates(searched.crystals, sought.query, best, {key: matches[key] for key in best})
    hits = _hits(best, signals, shown, wish.now)
    if (aside := searched.aside) is not None:
        beside = aside.by_keys(range(1, aside.newest() + 1))
        signals = signals_of(aside, sought, beside.keys(), "", ())
        hits = _hits(beside, signals, matches_of(signals), wish.now) | hits
    if wish.by_value and not asks_for_hormones(sought.query):
        hits = {id_: hit for id_, hit in hits.items() if not is_hormone_event(hit.crystal.text)}
    return _Found(best, hits, usual, looked)


def _without_duplicates(
    crystals: Crystals, query: str, best: Mapping[int, Crystal], matches: Mapping[int, float]
) -> dict[int, float]:
    """Return the matches without hidden duplicates whose canonical crystal matches about as well.

    A duplicate that is shown counts as faded, so its canonical crystal comes first. A duplicate whose exact words
    were asked for is shown.
    """
    shown = dict(matches)
    for duplicate, canonical in crystals.survivors(matches).items():
        shown[duplicate] *= FADED
        is_covered = shown[duplicate] <= matches.get(canonical, -1.0)
        if is_covered and not asked_word_for_word(query, best[duplicate].text):
            del shown[duplicate]
    return shown


def _hits(
    crystals: Mapping[int, Crystal], signals: Mapping[int, Signals], matches: Mapping[int, float], now: datetime
) -> dict[str, Hit]:
    return {
        crystals[key].id: Hit(crystals[key], 0.0, age_days(crystals[key], now), signals=signals[key], match=match)
        for key, match in matches.items()
    }


def _as_lines(searched: Searched, hits: dict[str, Hit], lines: Lines, wish: _Wish) -> dict[str, Hit]:
    """Return the hits with each former wording of a line replaced by its latest one, which inherits its match.

    A note that a line repeats word for word stays a result of its own.
    """
    former = {
        id_: place.crystal
        for id_, place in lines.latest.items()
        if place.crystal != id_ and hits[id_].crystal.origin is Origin.LINE
    }
    if not former:
        return hits
    keys = searched.crystals.keys(set(former.values()) - hits.keys()).values()
    latest = _allowed(searched.crystals, keys, wish.filters).values()
    known = {one.id: Hit(one, 0.0, age_days(one, wish.now), signals=Signals()) for one in latest} | hits
    for id_, now in former.items():
        if now in known and known[now].match < hits[id_].match:
            known[now] = replace(known[now], signals=hits[id_].signals, match=hits[id_].match)
    return {id_: hit for id_, hit in known.items() if id_ not in former}


def _allowed(crystals: Crystals, keys: Iterable[int], filters: Filters) -> dict[int, Crystal]:
    """Return the crystals in these rows that pass the filters."""
    return crystals.by_keys(read_rows(crystals.connection, keys, *condition(filters)))


def _answers_first(query: str, hits: dict[str, Hit], usual: float | None) -> dict[str, Hit]:
    """Rank texts that merely repeat the query behind all good answers.

    Otherwise somebody who asks the same in every session would find the question instead of the answer.
    """
    again = {id_ for id_, hit in hits.items() if asks_again(query, hit.crystal.text)}
    if not again:
        return hits
    good = [hit.match for id_, hit in hits.items() if id_ not in again and _score(hit, usual) >= GOOD]
    behind = FADED * min(good, default=1.0 / FADED)
    return hits | {id_: replace(hits[id_], match=min(hits[id_].match, behind)) for id_ in again}


def _score(hit: Hit, usual: float | None) -> float:
    return score(hit.signals, usual) if hit.signals else 0.0


# --- in which order


def _answers(searched: Searched, sought: Sought, wish: _Wish) -> _Answers:
    """Return the answers to a question or to one part of it."""
    query, crystals, by_value, until = sought.query, searched.crystals, wish.by_value, wish.filters.until
    found = _look(searched, sought, wish)
    lines = lines_of(crystals.connection, found.hits if by_value else (), until)
    hits = _answers_first(query, _as_lines(searched, found.hits, lines, wish), found.usual)
    keys = crystals.keys(hits)
    arrived = sorted(hits.values(), key=lambda hit: keys.get(hit.crystal.id, 0))
    ranked = order(((hit.crystal, hit.match) for hit in arrived), wish.now, wish.hormones)
    best, current, answered = [one for one, _ in ranked], dict[str, Crystal](), 0
    gone: dict[str, list[Crystal]] = {}
    if by_value and not (ranked and asked_word_for_word(query, best[0].text)):
        wanted = wanted_by(query, sought.question.periods, searched.zone)
        if not wish.everything:
            least = CUT * ranked[0][1] if ranked else 0.0
            answered = sum(one.id in lines.answered and match >= least for one, match in ranked)
            ranked = [one for one in ranked if one[0].id not in lines.answered]
        # Only values known to hold are added; nothing else may push a result out.
        best, current = _by_value(crystals, ranked[: wish.limit], lines, wanted, wish.filters)
        gone = {} if wish.everything else _superseded_ones(query, best, current, wanted)
    closest = max((_score(hits[one.id], found.usual) for one in best[: wish.limit] if one.id in hits), default=0.0)
    answers, over = list[Hit](), {one.id for those in gone.values() for one in those}
    for one in [one for one in best if one.id not in over][: wish.limit]:
        hit = hits.get(one.id) or Hit(one, 0.0, age_days(one, wish.now))
        by_meaning = found.usual is not None
        chance = found.looked.chance(hit.match, hit.signals, by_meaning=by_meaning) if hit.signals else 0.0
        answers.append(replace(hit, score=chance, superseded_by=current.get(one.id)))
    if by_value:
        answers = told_beneath(crystals, answers, lines, gone, found.candidates, until)
    counts = Counter({id_: len(those) for id_, those in gone.items()} | {"": answered})
    return _Answers(answers, found.usual, closest, found.looked.few, counts)


def _by_value(
    crystals: Crystals, ranked: Sequence[tuple[Crystal, float]], lines: Lines, wanted: Wanted, filters: Filters
) -> tuple[list[Crystal], dict[str, Crystal]]:
    """Return the results reordered and with current values added, and the current value of each result by id.

    Texts that the filters exclude are never shown, and the filters' `until` counts as now.
    """
    keys = crystals.keys(crystal.id for crystal, _ in ranked)
    shown = {keys[crystal.id]: crystal for crystal, _ in ranked if crystal.id in keys}
    known = Supersessions(crystals).among(shown, filters.until)
    pairs = [(pair.older, pair.newer) for pair in known.pairs]
    every = shown | _allowed(crystals, {row for pair in pairs for row in pair} - shown.keys(), filters)
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
    best = [crystal for crystal, _ in ranked]
    best += [one for key, one in every.items() if key not in shown and one.id in joined]
    # A note that a line said until it was changed follows what the line says now.
    after = ((keys[id_], keys.get(place.crystal)) for id_, place in lines.instead.items() if id_ in keys)
    pairs += [(old, new) for old, new in after if new in shown and (old, new) not in pairs]
    near = _find_near(crystals, shown, scores, filters.until)
    pairs += [pair for pair in near if pair not in pairs and pair[::-1] not in pairs]
    updates = [(every[old], every[new]) for old, new in pairs]
    current = {shown[key].id: every[now] for key, now in known.current.items() if key in shown and now in every}
    return in_order(sorted(best, key=lambda one: -joined[one.id]), updates, wanted), current


def _find_near(
    crystals: Crystals, shown: Mapping[int, Crystal], scores: Mapping[str, float], until: datetime | None
) -> Iterator[tuple[int, int]]:
    """Yield pairs of notes that are close and score nearly alike, the earlier said first."""
    notes = [key for key, one in list(shown.items())[:LOOKED_AT] if one.origin is not Origin.SESSION]
    cosines = crystals.vectors.between(notes)
    said = crystals.said_last({key for pair in cosines for key in pair}, until)
    for older, newer in combinations(sorted(said, key=lambda key: (said[key], key)), 2):
        worse, better = sorted((scores[shown[older].id], scores[shown[newer].id]))
        if worse >= NEARLY * better and are_near(shown[older], shown[newer], cosines[older, newer]):
            yield older, newer


def _count_likely(hits: Sequence[Hit], *, is_answered: bool, few: bool) -> int:
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


def _superseded_ones(
    query: str, best: Sequence[Crystal], current: Mapping[str, Crystal], wanted: Wanted
) -> dict[str, list[Crystal]]:
    """Return the results that another one supersedes, by its id, unless the question is about what held before.

    A text whose own words were asked for is shown.
    """
    there, found = {one.id for one in best}, defaultdict[str, list[Crystal]](list)
    for one in best:
        if (now := current.get(one.id)) is None or now.id not in there:
            continue
        if wanted.is_newer(one, now) and not asked_word_for_word(query, one.text):
            found[now.id].append(one)
    return found


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
