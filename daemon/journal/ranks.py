"""Reasons for a search result's rank: the share of each signal, boosts, and neighbours in its session."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from daemon.workspace.stores import Store
from state.search.ranking import WEIGHTS, Findings, Hit, contributions, fading, lift, relevance
from state.signals.hormones import Hormones
from state.stores.crystals.neighbours import said_around

NEIGHBOURS, NEIGHBOUR_CHARACTERS = 2, 300
# A factor closer to 1 than this is not shown.
_MOVED = 0.0005


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal of a result. `share` is its contribution to the relevance: weight * value / largest possible sum."""

    name: str
    value: float
    weight: float
    share: float


@dataclass(frozen=True, slots=True)
class Boost:
    """A factor applied to a result, and its name: "hormones", "faded" or "duplicate"."""

    name: str
    factor: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A text from the same session, cut, at this offset before (-2, -1) or after a result (1, 2)."""

    place: int
    id: str
    text: str
    speaker: str


@dataclass(frozen=True, slots=True)
class SearchSignals:
    """Why a result has its rank.

    `shares` add up to the `relevance`, which is cut to [0, 1]. `cosine` compares the embeddings of result and query,
    `usual` is the cosine of unrelated texts; both are None if meaning was not compared. A result that was added as
    the current value of another one has no shares, relevance or cosine of its own.
    """

    shares: tuple[Signal, ...]
    relevance: float
    boosts: tuple[Boost, ...]
    cosine: float | None
    usual: float | None
    neighbours: tuple[Neighbour, ...]


def signals_of(store: Store, findings: Findings, now: datetime, until: datetime | None) -> tuple[SearchSignals, ...]:
    """Return for each hit the reasons for its rank; neighbours from `until` on are left out."""
    hormones = store.feelings.levels(now)
    keys = store.crystals.keys(hit.crystal.id for hit in findings.hits)
    return tuple(
        SearchSignals(
            shares=tuple(
                Signal(name, value, WEIGHTS[name], share)
                for name, value, share in (contributions(hit.signals) if hit.signals else ())
            ),
            relevance=relevance(hit.signals) if hit.signals else 0.0,
            boosts=_boosts(hit, hormones, now),
            cosine=hit.signals.cosine if hit.signals and findings.usual is not None else None,
            usual=findings.usual,
            neighbours=tuple(_neighbours(store, keys.get(hit.crystal.id), until)),
        )
        for hit in findings.hits
    )


def _boosts(hit: Hit, hormones: Hormones, now: datetime) -> tuple[Boost, ...]:
    # Of an instruction, what its bonus may add is bounded by the best other result.
    match = relevance(hit.signals) if hit.signals and not hit.signals.instruction else 0.0
    factors = {
        "hormones": lift(hit.crystal, hormones, now),
        "faded": fading(hit.crystal, now),
        "duplicate": hit.match / match if match else 1.0,
    }
    return tuple(Boost(name, factor) for name, factor in factors.items() if abs(factor - 1.0) >= _MOVED)


def _neighbours(store: Store, key: int | None, until: datetime | None) -> Iterator[Neighbour]:
    if key is None:  # a hit that is not stored as a crystal
        return
    before, after = said_around(store.connection, key, NEIGHBOURS)
    crystals = store.crystals.by_keys([*before, *after])
    for place, other in [*enumerate(before, -len(before)), *enumerate(after, 1)]:
        crystal = crystals[other]
        if until is None or crystal.created_at < until:
            # Redaction may shorten the text, so begin with more than is shown.
            text = store.config.redaction.of(crystal.text[: 4 * NEIGHBOUR_CHARACTERS])
            shown = text if len(text) <= NEIGHBOUR_CHARACTERS else f"{text[: NEIGHBOUR_CHARACTERS - 1]}…"
            yield Neighbour(place, crystal.id, shown, crystal.speaker)
