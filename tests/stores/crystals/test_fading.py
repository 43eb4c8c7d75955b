"""Crystals fade in the stores when their strength says so, and at no other moment."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Lifecycle, Origin, fades_at
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database, to_text

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
FACT = Crystal("The port is 8443", Origin.SCRATCH, AT)


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    yield Crystals(connection)
    connection.close()


def _stage(crystals: Crystals, crystal: Crystal = FACT) -> Lifecycle:
    return crystals.get([crystal.id])[0].lifecycle


def _assert_moments(crystals: Crystals) -> None:
    """The column says what the values in the row say."""
    for row in crystals.connection.execute("SELECT id, fades_at FROM crystals").fetchall():
        moment = fades_at(crystals.get([row["id"]])[0])
        assert moment is not None
        assert row["fades_at"] == to_text(moment)


def _fading(crystals: Crystals, crystal: Crystal = FACT) -> datetime:
    moment = fades_at(crystals.get([crystal.id])[0])
    assert moment is not None
    return moment


def test_the_moment_is_kept_through_all_that_changes_it(crystals: Crystals) -> None:
    crystals.upsert([FACT, replace(FACT, text="x", valence=0.7, accesses=3, last_accessed_at=AT)])
    _assert_moments(crystals)
    crystals.touch([FACT.id], AT + timedelta(days=2))
    _assert_moments(crystals)
    crystals.upsert([replace(FACT, importance=0.9)])
    _assert_moments(crystals)
    crystals.mark_dreamt([FACT.id], 1)
    crystals.set_lifecycle([FACT.id], Lifecycle.FROZEN)
    _assert_moments(crystals)


def test_an_access_brings_it_back_and_it_fades_again(crystals: Crystals) -> None:
    crystals.upsert([FACT])
    crystals.archive_faded(later := AT + timedelta(days=400))
    crystals.touch([FACT.id], later)
    assert _stage(crystals) is Lifecycle.ACTIVATED
    assert crystals.archive_faded(later) == (0, 0)
    assert crystals.archive_faded(_fading(crystals)) == (1, 0)


def test_what_a_standing_pointer_leads_to_is_frozen_instead(crystals: Crystals) -> None:
    crystals.upsert([FACT, other := replace(FACT, text="other", id="0" * 32)])
    crystals.connection.executemany(
        "INSERT INTO pointers (keywords, topic, crystal, made_in, standing) VALUES (?, 'x', ?, 1, ?)",
        [("port", FACT.id, 1), ("other", other.id, 0)],
    )
    assert crystals.archive_faded(AT + timedelta(days=400)) == (1, 1)
    assert (_stage(crystals), _stage(crystals, other)) == (Lifecycle.FROZEN, Lifecycle.ARCHIVED)
