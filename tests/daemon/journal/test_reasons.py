"""A search that is asked for its reasons gives them, and finds what it finds without them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.search import SearchReply, memory_search
from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace
from state.crystals.crystal import Crystal, Origin
from state.search.ranking import FADED, WEIGHTS
from state.stores.disk.workspace import Workspace
from tests.support.running import Caller

AT = datetime(2026, 3, 12, tzinfo=UTC)
KEY = "sk_live_51Hb9kQ2eZvKYlo2C8mTq4R7x"
TALK = (
    "Where do we keep the numbers?",
    f"In the shed, and the key is {KEY}",
    "The ledger is kept in SQLite, behind the heron",
    "Good, " + "and so on " * 60,
    "And the backups?",
    "On tape",
)


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    workspace = init_workspace(tmp_path / "here")
    said = [
        Crystal(
            text,
            Origin.SESSION,
            AT + timedelta(hours=place),
            speaker="Ada",
            session="s",
            position=place,
            importance=0.5,
        )
        for place, text in enumerate(TALK)
    ]
    with LocalAccess(workspace, Config(), "test") as access, access.write() as store:
        store.crystals.learn([*said, Crystal("The ledger of the old house burnt", Origin.SCRATCH, AT)])
    return workspace


def found(workspace: Workspace, query: str, *, explain: bool, as_of: datetime | None = None) -> SearchReply:
    with LocalAccess(workspace, Config(), "test") as access:
        return memory_search.run(access, query=query, explain=explain, as_of=as_of)


def test_each_result_has_its_shares_what_moved_it_and_what_was_said_around_it(here: Workspace) -> None:
    signals = found(here, "where is the ledger kept", explain=True).hits[0].signals
    assert signals is not None
    assert [one.name for one in signals.shares] == list(WEIGHTS)
    assert sum(one.share for one in signals.shares) == pytest.approx(signals.relevance)
    assert signals.shares[0].value == signals.cosine
    assert signals.usual is not None
    assert signals.cosine is not None
    assert signals.cosine > signals.usual
    assert [one.place for one in signals.neighbours] == [-2, -1, 1, 2]
    assert signals.neighbours[0].text == TALK[0]
    assert KEY not in signals.neighbours[1].text
    assert "[redacted" in signals.neighbours[1].text
    assert len(signals.neighbours[2].text) == 300
    assert {one.speaker for one in signals.neighbours} == {"Ada"}


def test_what_was_said_later_is_not_told_of_an_earlier_day(here: Workspace) -> None:
    as_of = AT + timedelta(hours=2, minutes=1)
    signals = found(here, "where is the ledger kept", explain=True, as_of=as_of).hits[0].signals
    assert signals is not None
    assert [one.place for one in signals.neighbours] == [-2, -1]


def test_what_has_faded_and_what_the_hormones_favour_is_named(here: Workspace) -> None:
    with LocalAccess(here, Config(), "test") as access, access.write() as store:
        store.connection.execute("UPDATE crystals SET lifecycle = 'archived'")
    signals = found(here, "ledger", explain=True).hits[0].signals
    assert signals is not None
    assert {one.name: one.factor for one in signals.boosts}["faded"] == FADED
    assert {one.name for one in signals.boosts} <= {"faded", "hormones"}


def test_the_reasons_change_nothing_of_what_is_found(here: Workspace) -> None:
    plain = found(here, "where is the ledger kept", explain=False)
    assert all(hit.signals is None for hit in plain.hits)
    explained = found(here, "where is the ledger kept", explain=True)
    bare = tuple(replace(hit, signals=None, score=0.0, age_days=0.0) for hit in explained.hits)
    assert bare == tuple(replace(hit, score=0.0, age_days=0.0) for hit in plain.hits)


def test_the_command_prints_them_also_of_what_is_only_read(dreamd: Caller, here: Workspace) -> None:
    words = ("search", "-w", here.root, "where is the ledger kept")
    shown = dreamd(*words, "--explain").out
    for row in ("   relevance 0.", "   near in meaning: ", "   2 before: Ada: Where do we keep the numbers?"):
        assert row in shown
    assert "near in meaning" not in dreamd(*words).out
    with LocalAccess(here, Config(), "a dream") as access, access.write():
        assert all(hit["signals"]["shares"] for hit in dreamd(*words, "--explain", "--json").json["hits"])
