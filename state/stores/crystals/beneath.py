"""Beneath: what a search tells beneath a result: what was said later and is near, and what its line said before."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from state.crystals.crystal import Crystal, Origin
from state.search.ranking import Former, Hit
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.line_wordings import MOST_FORMER, Lines, former_wordings
from state.text.words import covers, ends_as_question, normalise, only_asks

# A text is told beneath an earlier one if their cosine is at least this: turns of a conversation are all near.
LATER = {True: 0.75, False: 0.7}
# A value is not told beside a former wording that has this share of its words, and all of its numbers.
RETOLD = 0.75


def told_beneath(
    crystals: Crystals,
    hits: Sequence[Hit],
    lines: Lines,
    gone: Mapping[str, Sequence[Crystal]],
    candidates: Mapping[int, Crystal],
    until: datetime | None,
) -> list[Hit]:
    """Return the hits with what is told beneath each of them.

    `gone` are the superseded values that are not shown, by the id of what holds; `candidates` are what the search has
    read. What is shown itself is not told as a former wording.
    """
    places = {place.crystal: place for place in lines.latest.values()}
    shown = {normalise(hit.crystal.text) for hit in hits}
    later = _later(crystals, [hit.crystal for hit in hits], candidates, until)

    def told(hit: Hit) -> Hit:
        id_ = hit.crystal.id
        place = places.get(id_)
        before = former_wordings(crystals.connection, place.line) if place else ()
        retold = [one for one in gone.get(id_, ()) if any(covers(was.text, one.text, RETOLD) for was in before)]
        values = [Former(one.text, one.created_at, is_draft=False) for one in gone.get(id_, ()) if one not in retold]
        former = {normalise(one.text): one for one in (*before, *values)}
        rest = [one for text, one in former.items() if text not in shown]
        rest = sorted(rest, key=lambda one: one.at, reverse=True)[:MOST_FORMER]
        stands = place.line if place and place.stands else ""
        after = None if hit.superseded_by else later.get(id_)
        is_note = hit.crystal.origin is not Origin.SESSION
        asks = id_ in lines.open or (is_note and only_asks(hit.crystal.text))
        return replace(hit, line=stands, former=tuple(rest), later=after, asks=asks)

    return [told(hit) for hit in hits]


def _later(
    crystals: Crystals, hits: Iterable[Crystal], candidates: Mapping[int, Crystal], until: datetime | None
) -> dict[str, Crystal]:
    """Map each result to the nearest candidate that was said later, elsewhere than in its session, and tells."""
    shown = crystals.keys(one.id for one in hits)
    said = crystals.said_last({*shown.values(), *candidates}, until)
    near = crystals.vectors.between(said)
    found = {}
    for one in hits:
        key = shown.get(one.id, 0)  # 0 is no row: a text beside the store
        others = [
            (near[key, other], other)
            for other, text in candidates.items()
            if (key, other) in near
            and said[key] < said[other]
            and near[key, other] >= LATER[one.origin is Origin.SESSION]
            and not (one.session and one.session == text.session)
            and not ends_as_question(text.text)
        ]
        if others:
            found[one.id] = candidates[max(others)[1]]
    return found
