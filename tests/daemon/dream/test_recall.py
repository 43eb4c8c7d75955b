"""What a dream does to searches is recorded, costs no dream its life, and is a warning when something is lost."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.api.search import recall
from daemon.config.settings import Config
from daemon.dream import recall as module
from daemon.dream.recall import questions, recall_before, record_recall
from daemon.dream.run import Mode, dream_now
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.status import status
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Origin
from state.dream import Reason
from state.forgetting.cutting import Cut
from state.scratch import Note
from state.search.ranking import Filters
from state.stores.history.ledger import KEPT_SEARCHES, Recall
from tests.support.working import AT, SECRET, working

TEA, PORT = "Ada prefers tea over coffee", "The deployment runs on port 8443"


def noted(store: Store, *texts: str) -> None:
    for text in texts:
        store.notes.inbox.append(Note(text, utc_now()))


def pointer(store: Store, keywords: str, text: str) -> None:
    """A pointer of MEMORY.md to the crystal of this text, as a dream leaves one."""
    crystal = store.crystals.connection.execute("SELECT id FROM crystals WHERE text = ?", (text,)).fetchone()["id"]
    store.crystals.connection.execute(
        "INSERT INTO pointers (keywords, topic, crystal, made_in) VALUES (?, 'a topic', ?, 1)", (keywords, crystal)
    )


def told(store: Store) -> list[str]:
    found = status(store.workspace, Config(), utc_now())
    return [f"{problem.what}; {problem.advice}" for problem in found.problems if "do not find" in problem.what]


def test_a_dream_asks_the_last_searches_before_and_after_itself(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA, PORT)
        assert recall(store, "what does Ada prefer, tea or coffee").good
        dream = dream_now(store, Reason.MANUAL, Mode.AUTO).dream.id
        assert store.ledger.recall(dream) == Recall(1, 1, 1, ())
        assert told(store) == []


def test_a_dry_run_and_a_proposal_ask_nothing(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA, PORT)
        recall(store, "what does Ada prefer, tea or coffee")
        for mode in (Mode.DRY, Mode.PROPOSE):
            assert store.ledger.recall(dream_now(store, Reason.MANUAL, mode).dream.id) is None


def test_a_pointer_that_is_lost_is_in_the_ledger_and_a_warning(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA, PORT)
        dream = dream_now(store, Reason.MANUAL, Mode.AUTO).dream.id
        pointer(store, "port deployment 8443", PORT)
        pointer(store, "Ada tea coffee", TEA)
        before = recall_before(store, utc_now())
        assert list(before.values()) == [True, True]
        store.crystals.connection.execute("DELETE FROM crystals WHERE text = ?", (PORT,))
        record_recall(store, dream, before, utc_now())
        assert store.ledger.recall(dream) == Recall(2, 2, 1, ("port deployment 8443",))
        (warning,) = told(store)
        assert f"after dream {dream} 1 of 2 searches" in warning
        assert "`port deployment 8443`" in warning
        assert any("`port deployment 8443`" in notice for notice in store.notices)


def test_what_was_not_found_before_is_not_lost(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA)
        dream = dream_now(store, Reason.MANUAL, Mode.AUTO).dream.id
        pointer(store, "lighthouse", TEA)
        record_recall(store, dream, recall_before(store, utc_now()), utc_now())
        assert store.ledger.recall(dream) == Recall(1, 0, 0, ())


def test_without_time_nothing_is_asked_and_nothing_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SECONDS", -1.0)
    with working(tmp_path / "agent") as store:
        noted(store, TEA)
        recall(store, "tea or coffee for Ada")
        dream = dream_now(store, Reason.MANUAL, Mode.AUTO).dream.id
        assert store.ledger.recall(dream) is None


def test_a_dream_does_not_fail_when_it_cannot_be_measured(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA)
        recall(store, "tea or coffee for Ada")
        store.crystals.connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON recalls BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert any("is not recorded" in notice for notice in store.notices)
        store.crystals.connection.execute("DROP TABLE searches")
        assert recall_before(store, utc_now()) == {}
        assert any("is not measured" in notice for notice in store.notices)


def test_searches_and_pointers_take_turns(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA, PORT)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        for at, query in enumerate(("first", "second", "third")):
            store.ledger.keep_search(query, "0" * 32, AT + timedelta(minutes=at))
        pointer(store, "Ada tea", TEA)
        pointer(store, "third", PORT)
        assert [one.query for one in questions(store)] == ["third", "Ada tea", "second", "first"]


def test_only_good_searches_without_filters_are_kept_the_last_twenty_and_no_secret(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA)
        recall(store, "lighthouses of Norway")
        recall(store, "tea or coffee for Ada", filters=Filters(origin=Origin.SCRATCH))
        recall(store, f"tea or coffee for Ada {SECRET}")
        assert store.ledger.searches() == []
        for number in range(KEPT_SEARCHES + 5):
            store.ledger.keep_search(f"query {number}", "0" * 32, AT + timedelta(minutes=number))
        store.ledger.keep_search("long " * 200, "0" * 32, utc_now())
        assert [query for query, _ in store.ledger.searches()] == [f"query {n}" for n in range(24, 4, -1)]


def test_what_is_forgotten_is_no_search_any_more(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store, TEA, PORT)
        recall(store, "what does Ada prefer, tea or coffee")
        recall(store, f"who said: {PORT}")
        recall(store, "which port has the deployment that runs")
        assert len(store.ledger.searches()) == 3
        store.ledger.record_recall("some", Recall(1, 1, 0, (f"{PORT} and more",)), AT)
        forget(store, ForgetRequest(PORT, Cut.SENTENCES), utc_now())
        assert [query for query, _ in store.ledger.searches()] == ["what does Ada prefer, tea or coffee"]
        left = store.ledger.recall("some")
        assert left is not None
        assert "8443" not in str(left.lost)
        store.ledger.keep_search(f"who said: {PORT}", "0" * 32, AT)  # nor is it learnt again
        assert len(store.ledger.searches()) == 1


def test_a_database_of_before_has_no_recall(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        store.crystals.connection.execute("DROP TABLE recalls")
        assert store.ledger.recall("any") is None
        with pytest.raises(sqlite3.OperationalError):
            store.ledger.record_recall("any", Recall(1, 1, 1, ()), AT)
