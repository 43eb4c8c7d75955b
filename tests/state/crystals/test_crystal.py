"""Crystals by example: the constants are the specification's."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.crystals import crystal as module
from state.crystals.crystal import Crystal, Lifecycle, Origin, Source, lifecycle, strength

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
FRESH = Crystal("Anna lives in Bonn.", Origin.SCRATCH, NOW, importance=1.0)


def test_the_constants_are_those_of_the_specification() -> None:
    assert (module.ACCESS_RATE, module.VALENCE_HOLD, module.HALF_LIFE_DAYS) == (0.2, 0.5, 16.0)


@pytest.mark.parametrize(
    ("accesses", "age_days", "valence", "expected"),
    [
        (0, 0.0, 0.0, 1 - math.exp(-0.2)),
        (4, 0.0, 0.0, 1 - math.exp(-1.0)),
        (0, 16.0, 0.0, (1 - math.exp(-0.2)) / 2),
        (0, 32.0, 0.0, (1 - math.exp(-0.2)) / 4),
        (0, 16.0, 1.0, (1 - math.exp(-0.2)) / math.sqrt(2)),
        (0, 16.0, -0.5, (1 - math.exp(-0.2)) * 2**-0.75),
        (0, 16.0, 9.0, (1 - math.exp(-0.2)) / math.sqrt(2)),
        (0, -5.0, 0.0, 1 - math.exp(-0.2)),
    ],
)
def test_strength_follows_the_formula(accesses: int, age_days: float, valence: float, expected: float) -> None:
    crystal = replace(FRESH, accesses=accesses, valence=valence)
    assert strength(crystal, NOW + timedelta(days=age_days)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("stored", "accesses", "age_days", "read"),
    [
        (Lifecycle.GENERATED, 0, 0, Lifecycle.GENERATED),
        (Lifecycle.GENERATED, 1, 0, Lifecycle.ACTIVATED),
        (Lifecycle.CONSOLIDATED, 3, 0, Lifecycle.CONSOLIDATED),
        (Lifecycle.CONSOLIDATED, 0, 400, Lifecycle.ARCHIVED),
        (Lifecycle.GENERATED, 0, 400, Lifecycle.ARCHIVED),
        (Lifecycle.ARCHIVED, 1, 0, Lifecycle.ACTIVATED),
    ],
)
def test_the_lifecycle_is_read_from_the_strength(
    stored: Lifecycle, accesses: int, age_days: int, read: Lifecycle
) -> None:
    crystal = replace(FRESH, lifecycle=stored, accesses=accesses)
    assert lifecycle(crystal, NOW + timedelta(days=age_days)) is read


def test_nothing_but_origin_and_text_makes_the_digest() -> None:
    other = replace(FRESH, importance=0.1, context="Anna, in May", session="s", position=3, accesses=9, valence=0.3)
    assert other.digest == FRESH.digest


def test_the_indexes_see_the_context_before_the_text() -> None:
    assert FRESH.indexed_text == "Anna lives in Bonn."
    assert replace(FRESH, context="The Bond").indexed_text == "The Bond: Anna lives in Bonn."


def test_a_source_is_written_as_file_lines_and_digest() -> None:
    assert str(Source("memory/scratch.md", 3, 5, "0123456789abcdef")) == "memory/scratch.md:3-5@0123456789ab"
    assert str(Source("a.md", 3, 3)) == "a.md:3"
