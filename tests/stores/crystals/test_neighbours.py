from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Origin
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.neighbours import said_around
from state.stores.database.connection import open_database


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    yield Crystals(connection)
    connection.close()


def _note(text: str, session: str = "", position: int = 0) -> Crystal:
    made = Crystal(text, Origin.SCRATCH, datetime(2026, 3, 1, 12, tzinfo=UTC), session=session, position=position)
    return replace(made, id=made.digest)


def _around(crystals: Crystals, one: Crystal, most: int) -> tuple[list[Crystal], list[Crystal]]:
    before, after = said_around(crystals.connection, crystals.keys([one.id])[one.id], most)
    known = crystals.by_keys([*before, *after])
    return [known[key] for key in before], [known[key] for key in after]


def test_neighbours_are_those_about_it_in_its_session(crystals: Crystals) -> None:
    turns = [_note(f"turn {number}", session="s", position=number) for number in range(6)]
    crystals.upsert([*turns, _note("elsewhere", session="t", position=2), _note("alone")])
    assert _around(crystals, turns[2], 1) == ([turns[1]], [turns[3]])
    assert _around(crystals, turns[0], 2) == ([], [turns[1], turns[2]])
    assert _around(crystals, turns[4], 2) == ([turns[2], turns[3]], [turns[5]])
    assert _around(crystals, _note("alone"), 2) == ([], [])
    assert said_around(crystals.connection, 4_711, 2) == ([], [])


def test_a_neighbour_that_was_said_before_elsewhere_is_a_neighbour_here_too(crystals: Crystals) -> None:
    thanks = _note("thanks", session="s", position=0)
    crystals.upsert([thanks, _note("bye", session="t", position=0), replace(thanks, session="t", position=1)])
    assert _around(crystals, _note("bye"), 2) == ([], [thanks])
