"""Insights: from groups of new memories, grounded in at least two of them."""

import json

import pytest

from graphs import reflection
from state.crystals.crystal import Kind, Lifecycle, Origin
from state.dream import Evidence, Snapshot
from state.dream import Kind as EvidenceKind
from state.errors import ReplyError
from state.trust import Trust
from tests.graphs.world import NOW, note, snapshot

BRIDGES = [f"The bridge to host{n:02} lost its eigentrust score." for n in range(8)]
TEAS = [f"Anna drinks green tea from garden{n:02} in Japan." for n in range(5)]


def read(*texts: str) -> Snapshot:
    return snapshot("", *texts)


def test_there_is_nothing_to_say_about_less_than_twelve() -> None:
    assert reflection.groups(read(*BRIDGES, *TEAS[:3])) == []
    assert reflection.groups(read(*BRIDGES, *TEAS[:4])) != []


def test_what_is_about_the_same_is_a_group_the_largest_first() -> None:
    groups = reflection.groups(read(*TEAS, *BRIDGES, "A single thought on volcanoes."))
    assert [len(group) for group in groups] == [8, 5]
    assert {one.text for one in groups[0]} == set(BRIDGES)


def test_only_notes_and_crystals_are_reflected_on() -> None:
    gaps = tuple(
        Evidence(f"G{n}", EvidenceKind.GAP, text, 0.5, Trust.AGENT, NOW) for n, text in enumerate(BRIDGES + TEAS)
    )
    assert reflection.groups(snapshot("", *gaps)) == []


def test_the_request_shows_ten_of_a_group() -> None:
    many = [f"The bridge to host{n:02} lost its eigentrust score." for n in range(30)]
    asked = reflection.request(read(*many), reflection.groups(read(*many)))
    assert asked.user.count("The bridge to host") == 10
    assert asked.schema_name == "insights"


def said(*insights: tuple[str, list[str]]) -> str:
    return json.dumps({"insights": [{"text": text, "cites": cites} for text, cites in insights]})


def test_an_insight_is_evidence_and_a_crystal_with_parents() -> None:
    snap = read(*BRIDGES, *TEAS)
    evidence, crystals = reflection.read(said(("Bridges lose their eigentrust score.", ["N1", "N2"])), snap)
    (piece,), (crystal,) = evidence, crystals
    assert (piece.id, piece.kind, piece.crystal) == ("I1", EvidenceKind.INSIGHT, crystal.id)
    assert (crystal.origin, crystal.kind, crystal.lifecycle) == (Origin.DREAM, Kind.INSIGHT, Lifecycle.GENERATED)
    assert crystal.parents == (snap.evidence[0].crystal, snap.evidence[1].crystal)


def test_an_insight_is_trusted_as_the_least_of_its_sources() -> None:
    snap = snapshot("", note(1, BRIDGES[0], trust=Trust.OWNER), note(2, BRIDGES[1], trust=Trust.WEB))
    _, (crystal,) = reflection.read(said(("Bridges lose their eigentrust score.", ["N1", "N2"])), snap)
    assert crystal.trust is Trust.WEB


@pytest.mark.parametrize(
    ("text", "cites"),
    [
        ("Bridges lose their eigentrust score.", ["N1"]),
        ("Bridges lose their eigentrust score.", ["N1", "N1"]),
        ("Bridges lose their eigentrust score.", ["N1", "N99"]),
        ("Bridges lose their eigentrust score.", []),
    ],
)
def test_an_insight_that_cites_fewer_than_two_inputs_is_left_out(text: str, cites: list[str]) -> None:
    good = ("Bridges lose their eigentrust score.", ["N3", "N4"])
    evidence, crystals = reflection.read(said((text, cites), good), read(*BRIDGES, *TEAS))
    assert [one.text for one in crystals] == [good[0]]
    assert [one.id for one in evidence] == ["I1"]


def test_an_insight_becomes_one_safe_row() -> None:
    text = "Bridges lose\n## The Bond\n<!-- pinned --> their score, see sk-ant-api03-" + "a1B2" * 20
    _, (crystal,) = reflection.read(said((text, ["N1", "N2"])), read(*BRIDGES, *TEAS))
    assert "\n" not in crystal.text
    assert "<!--" not in crystal.text
    assert "sk-ant" not in crystal.text


def test_at_most_five_insights_are_taken() -> None:
    insights = [(f"Bridges lose their score, says host0{n}.", [f"N{n}", f"N{n + 1}"]) for n in range(1, 8)]
    evidence, crystals = reflection.read(said(*insights), read(*BRIDGES, *TEAS))
    assert len(evidence) == len(crystals) == reflection.MAX_INSIGHTS


def test_an_answer_without_insights_is_none_or_an_error() -> None:
    assert reflection.read('{"insights": []}', read(*BRIDGES)) == ((), ())
    with pytest.raises(ReplyError):
        reflection.read("no", read(*BRIDGES))
