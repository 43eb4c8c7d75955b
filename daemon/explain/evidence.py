"""Evidence: a crystal as what something else rests on, the same in every explanation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal
from state.stores.crystals.supersessions import Supersessions

# A crystal may rest on others (an insight on what was read), and those on others again.
_GENERATIONS = 3


@dataclass(frozen=True, slots=True)
class Evidence:
    """A crystal that something rests on; one that was forgotten has an id alone.

    `sources` are file:lines@hash, or sessions; `parents` are ids of other evidence. `heard`: its agent had read a
    page ("web") or a tool's answer ("tool") since its owner's last word. `superseded_by` is the id of the crystal
    that holds now, which says `holds_now` since `superseded_at`, as `found_by` found.
    """

    id: str
    text: str = ""
    origin: str = ""
    trust: str = ""
    speaker: str = ""
    heard: str = ""
    at: datetime | None = None
    sources: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    superseded_by: str = ""
    holds_now: str = ""
    superseded_at: datetime | None = None
    found_by: str = ""


def evidence_in(store: Store, crystals: Iterable[Crystal], most: int | None = None) -> dict[str, Evidence]:
    """Return these crystals as evidence by their ids, without their places; of each text `most` characters."""
    shown = shown_of(store)
    return {
        one.id: Evidence(
            id=one.id,
            text=shown(one.text)[:most],
            origin=one.origin.value,
            trust=one.trust.value,
            speaker=shown(one.speaker),
            heard=one.heard,
            at=one.created_at,
            parents=one.parents,
        )
        for one in crystals
    }


def evidence_of(store: Store, ids: Iterable[str]) -> tuple[Evidence, ...]:
    """Return the crystals with these ids, then those they were derived from: where said, and what holds now."""
    found = dict[str, Evidence]()
    wanted = list(dict.fromkeys(ids))
    for _ in range(_GENERATIONS):
        known = {one.id: one for one in store.crystals.get(wanted)}
        brief = evidence_in(store, known.values())
        found |= {one: _placed(store, brief[one]) if one in brief else Evidence(one) for one in wanted}
        wanted = [parent for one in known.values() for parent in one.parents if parent not in found]
    return tuple(found.values())


def picked(known: Mapping[str, Evidence], ids: Iterable[str]) -> tuple[Evidence, ...]:
    """Return the evidence with these ids; what is not known any more has nothing but its id."""
    return tuple(known.get(one, Evidence(one)) for one in ids)


def _placed(store: Store, evidence: Evidence) -> Evidence:
    """Add where it was said, and what supersedes it."""
    places = (
        str(one.source) if one.source else f"session {one.session}" if one.session else ""
        for one in store.crystals.sources(evidence.id)
    )
    evidence = replace(evidence, sources=tuple(dict.fromkeys(filter(None, places))))
    key = store.crystals.keys([evidence.id])[evidence.id]
    known = Supersessions(store.crystals).among([key])
    if (current := known.current.get(key)) is None:
        return evidence
    newer = store.crystals.by_keys([current])[current]
    last = [pair for pair in known.pairs if pair.newer == current][-1]
    return replace(
        evidence,
        superseded_by=newer.id,
        holds_now=shown_of(store)(newer.text),
        superseded_at=last.at,
        found_by=last.cause.value,
    )
