"""The same words of two people, of one person twice, and of a tool that echoes them."""

from dataclasses import replace
from datetime import UTC, datetime

from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.stores.crystals.crystals import Crystals
from state.trust import Trust


def said(text: str, **changes: object) -> Crystal:
    return replace(Crystal(text, Origin.SCRATCH, datetime(2026, 3, 1, 12, tzinfo=UTC)), **changes)  # type: ignore[arg-type]


def test_two_people_who_say_the_same_are_two_facts(crystals: Crystals) -> None:
    anna = said("I am allergic to nuts.", origin=Origin.SESSION, speaker="Anna")
    bob = replace(anna, speaker="Bob")
    assert crystals.upsert([anna, bob, replace(anna, speaker="anna"), bob]) == 2
    found = crystals.undreamt()
    assert {(one.speaker, one.id == anna.id) for one in found} == {("Anna", True), ("Bob", False)}
    assert crystals.get([one.id for one in found]) == found


def test_a_transcript_that_an_older_version_read_is_not_doubled(crystals: Crystals) -> None:
    anna = said("I am allergic to nuts.", origin=Origin.SESSION, speaker="Anna")
    crystals.upsert([anna])  # by its origin and text, as ever
    assert crystals.ids_of([crystal_digest(Origin.SESSION, anna.text)]) != {}
    assert crystals.upsert([anna]) == 0


def test_what_a_tool_echoes_is_one_with_what_it_echoes(crystals: Crystals) -> None:
    word = said("The port is 8080.", origin=Origin.SESSION, speaker="user", trust=Trust.OWNER)
    assert crystals.upsert([word, replace(word, speaker="tool", trust=Trust.TOOL)]) == 1
    assert crystals.get([word.id])[0].trust is Trust.OWNER
