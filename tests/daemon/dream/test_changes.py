"""Changes that wait for their owner: over real dreams, restores, a kill, and weeks in which nobody looks."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.config.settings import ApproveSection, Config, DreamSection, load
from daemon.dream.restore import restore
from daemon.dream.review import decide_changes, open_changes, settle
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.retention import sweep
from daemon.workspace.status import status
from daemon.workspace.stores import Store, utc_now
from state.document.document import parse
from state.document.operations import Why
from state.dream import Decision, Dream
from state.errors import ConflictError, NotFoundError, UsageError
from state.trust import Trust
from tests.support.committing import added, dreamt, write
from tests.support.committing import lines as lines_of
from tests.support.copies import copy_of
from tests.support.faults import PowerCut, Unsynced
from tests.support.revising import revises
from tests.support.working import working

TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
OLD_PORT, NEW_PORT = "The staging server listens on port 8080", "The staging server listens on port 9090"
WEEKS = timedelta(days=15)


class _CutAtTheSwap(Unsynced):
    """The power goes when MEMORY.md is to be swapped: the version is decided and not done."""

    def exchange(self, one: Path, other: Path, /) -> None:
        raise PowerCut(f"{one} {other}")


# What the model takes to be the newer text of what.
NEWER = {
    COFFEE: TEA,
    f"{COFFEE}!": TEA,
    "Ada prefers coffee in the morning now": TEA,
    NEW_PORT: OLD_PORT,
    "The staging server listens on port 9191": OLD_PORT,
    "The backup server listens on port 7171": "The backup server",
}


@pytest.fixture(scope="module", autouse=True)
def _model() -> Iterator[None]:
    with revises(NEWER):
        yield


def opened(folder: Path, **approve: object) -> AbstractContextManager[Store]:
    """The workspace, in which changes of The Bond wait, with these rules; without an embedding model."""
    return working(folder, ruled({"sections": {"The Bond": "ask"}} | approve))


def ruled(approve: dict[str, object]) -> Config:
    """These rules, and the model of these tests."""
    return load(None).model_copy(update={"dream": DreamSection(approve=ApproveSection.model_validate(approve))})


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace after its first dream."""
    root = tmp_path_factory.mktemp("begun") / "agent"
    with opened(root) as store:
        dreamt(store, TEA, OLD_PORT)
    return root


@pytest.fixture
def store(begun: Path, tmp_path: Path) -> Iterator[Store]:
    with opened(copy_of(begun, tmp_path / "agent").root) as store:
        yield store


def lines(store: Store) -> list[str]:
    return lines_of(store.workspace)


def decided(store: Store) -> list[tuple[int, str]]:
    rows = store.connection.execute("SELECT number, decision FROM changes ORDER BY number")
    return [(number, decision) for number, decision in rows]


def waiting(store: Store) -> list[str]:
    return [one.change.operation.text for one, _ in open_changes(store) if one.decision is Decision.WAITING]


def approve(store: Store, *numbers: int) -> Dream | None:
    return decide_changes(store, dict.fromkeys(numbers, Decision.APPROVED), {}).dream


def test_a_change_of_the_bond_waits_and_the_rest_is_committed(store: Store) -> None:
    outcome = dreamt(store, COFFEE, NEW_PORT)
    assert (sum(not one.applied for one in outcome.dream.staged), outcome.changes) == (1, 1)
    assert lines(store) == [TEA, NEW_PORT]
    assert waiting(store) == [COFFEE]
    assert tuple(store.notes.each_pending()) == ()
    # Its input is taken in: nothing is left to dream of, and what comes later does not propose it again.
    dreamt(store, "The harbour wall is of granite")
    assert waiting(store) == [COFFEE]
    counts = status(store.workspace, store.config, utc_now()).changes
    assert counts.waiting == 1
    assert decided(store) == [(1, "waiting"), (2, "applied")]


def test_an_approved_change_is_a_version_that_a_restore_takes_back(store: Store) -> None:
    dreamt(store, COFFEE)
    done = approve(store, 1)
    assert done is not None
    assert (done.number, done.cause, done.reason) == (3, "review", "change 1")
    assert lines(store) == [COFFEE, OLD_PORT]
    assert waiting(store) == []
    assert store.ledger.runs(1)[0].outcome == "committed"
    (life,) = store.lineage.lives(TEA)
    assert (life.fate, life.died_in) == (Why.REVISED, 3)
    assert TEA in {crystal.text for crystal in store.crystals.get([life.crystal])}
    with pytest.raises(NotFoundError, match="no change 1 waits"):
        approve(store, 1)

    restore(store, 2)
    assert lines(store) == [TEA, OLD_PORT]
    assert waiting(store) == [COFFEE]
    assert approve(store, 1) is not None
    assert lines(store) == [COFFEE, OLD_PORT]


def test_a_restore_to_before_the_dream_that_staged_it_makes_its_note_pending_again(store: Store) -> None:
    dreamt(store, COFFEE)
    restore(store, 1)
    assert waiting(store) == []
    assert [note.text for note in tuple(store.notes.each_pending())] == [COFFEE]
    dreamt(store)
    assert waiting(store) == [COFFEE]
    assert decided(store) == [(1, "outdated"), (2, "waiting")]


def test_what_nobody_decides_becomes_a_note_and_does_not_go_in_circles(store: Store) -> None:
    dreamt(store, COFFEE)
    assert settle(store, utc_now() + timedelta(days=13)) == 0
    assert settle(store, utc_now() + WEEKS) == 1
    assert settle(store, utc_now() + WEEKS) == 0
    assert decided(store) == [(1, "expired")]
    (note,) = tuple(store.notes.each_pending())
    assert note.text == COFFEE
    outcome = dreamt(store)
    assert waiting(store) == []
    assert [one.figures for one in outcome.refused] == ["what it cites has waited before and was not decided"]
    assert tuple(store.notes.each_pending()) == ()
    assert lines(store) == [TEA, OLD_PORT]
    # With a rule that lets it apply, the note would have.
    store = replace(store, config=ruled({}))
    dreamt(store, "Ada prefers coffee in the morning now")
    assert TEA not in lines(store)


def test_a_note_that_a_kill_left_before_it_was_recorded_is_not_written_twice(store: Store) -> None:
    dreamt(store, COFFEE)
    settle(store, utc_now() + WEEKS)
    store.connection.execute("UPDATE changes SET decision = 'waiting', decided_at = NULL, note = ''")
    settle(store, utc_now() + WEEKS)
    assert [note.text for note in tuple(store.notes.each_pending())] == [COFFEE]


def test_a_change_whose_line_the_owner_changed_does_not_apply_and_is_a_note_of_its_time(store: Store) -> None:
    dreamt(store, COFFEE)
    text = write(store.workspace, lambda text: text.replace(TEA, "Ada drinks water in the morning"))
    assert [outdated for _, outdated in open_changes(store)] == [True]
    done = decide_changes(store, {1: Decision.APPROVED}, {})
    assert (done.dream, done.outdated, dict(done.decided)) == (None, (1,), {})
    assert lines(store) == [block.text for _, block in parse(text).lines()]
    assert decided(store) == [(1, "outdated")]
    assert [note.text for note in tuple(store.notes.each_pending())] == [COFFEE]


def test_tidying_that_is_outdated_says_nothing_new_and_is_no_note(store: Store) -> None:
    dreamt(store, COFFEE)
    # As a change is kept that cited nothing, and only words its line otherwise.
    connection = store.connection
    (row,) = connection.execute("SELECT record FROM changes").fetchone()
    connection.execute("UPDATE changes SET record = ?", (json.dumps(json.loads(row) | {"evidence": []}),))
    assert settle(store, utc_now() + WEEKS) == 1
    assert decided(store) == [(1, "expired")]
    assert tuple(store.notes.each_pending()) == ()


def test_a_change_that_the_owner_made_by_hand_is_dropped_without_a_note(store: Store) -> None:
    dreamt(store, COFFEE)
    write(store.workspace, lambda text: text.replace(TEA, COFFEE))
    assert settle(store, utc_now()) == 1
    assert tuple(store.notes.each_pending()) == ()


def test_a_line_by_hand_is_changed_when_its_owner_says_so(store: Store) -> None:
    write(store.workspace, lambda text: added(text, "The backup server listens on port 7070"))
    dreamt(store, "Grace plays chess")
    dreamt(store, "The backup server listens on port 7171")
    assert "The backup server listens on port 7070" in lines(store)
    (one,) = [one for one, _ in open_changes(store)]
    assert one.change.figures == "dream.approve.by_hand: ask"
    assert approve(store, one.number) is not None
    assert "The backup server listens on port 7171" in lines(store)


def test_the_owners_own_words_take_its_place(store: Store) -> None:
    dreamt(store, COFFEE)
    for text in ("", " ", "two\nlines"):
        with pytest.raises(UsageError):
            decide_changes(store, {1: Decision.APPROVED}, {1: text})
    assert decided(store) == [(1, "waiting")]
    done = decide_changes(store, {1: Decision.APPROVED}, {1: "Ada prefers cocoa"}).dream
    assert done is not None
    assert lines(store) == ["Ada prefers cocoa", OLD_PORT]
    (life,) = store.lineage.lives("cocoa")
    assert life.trust is Trust.OWNER
    assert life.id in store.lineage.handwritten()


def test_an_approval_that_was_cut_off_is_finished_once(tmp_path: Path) -> None:
    with opened(tmp_path / "agent") as store:
        dreamt(store, TEA, OLD_PORT)
        dreamt(store, COFFEE)
        store.memory.disk.system = _CutAtTheSwap()
        with pytest.raises(PowerCut):
            approve(store, 1)
    with opened(tmp_path / "agent") as store:
        assert lines(store) == [COFFEE, OLD_PORT]
        assert decided(store) == [(1, "approved")]
        dreamt(store, "The harbour wall is of granite")
        assert store.lineage.last_version() == 4


def test_what_applied_is_accepted_or_undone(store: Store) -> None:
    dreamt(store, NEW_PORT)
    assert lines(store) == [TEA, NEW_PORT]
    assert status(store.workspace, store.config, utc_now()).changes.waiting == 0
    with pytest.raises(UsageError, match="accept or undo"):
        approve(store, 1)
    done = decide_changes(store, {1: Decision.UNDONE}, {})
    assert done.dream is not None
    assert lines(store) == [TEA, OLD_PORT]
    assert decided(store) == [(1, "undone")]
    restore(store, 2)
    assert decided(store) == [(1, "applied")]
    assert decide_changes(store, {1: Decision.ACCEPTED}, {}).dream is None
    assert lines(store) == [TEA, NEW_PORT]
    assert open_changes(store) == []


def test_what_was_accepted_can_be_undone_again_as_long_as_it_stands(store: Store) -> None:
    dreamt(store, NEW_PORT)
    decide_changes(store, {1: Decision.ACCEPTED}, {})
    decide_changes(store, {}, {}, [1])
    assert decided(store) == [(1, "applied")]
    decide_changes(store, {1: Decision.ACCEPTED}, {})
    write(store.workspace, lambda text: text.replace(NEW_PORT, "The server is off"))
    with pytest.raises(ConflictError, match="no longer what they were"):
        decide_changes(store, {}, {}, [1])
    assert decided(store) == [(1, "accepted")]


def test_nothing_is_decided_when_one_of_them_cannot_be(store: Store) -> None:
    dreamt(store, COFFEE)
    with pytest.raises(NotFoundError):
        decide_changes(store, {1: Decision.DECLINED, 9: Decision.APPROVED}, {})
    assert decided(store) == [(1, "waiting")]


def test_a_change_whose_text_was_forgotten_stops_no_dream(store: Store) -> None:
    dreamt(store, COFFEE)
    assert approve(store, 1) is not None
    forget(store, ForgetRequest(COFFEE), utc_now())
    restore(store, 2)
    assert decided(store) == [(1, "outdated")]  # it waited at version 2, and says nothing any more
    for note in ("The harbour wall is of granite", "Grace plays chess"):
        dreamt(store, note)
        assert note in lines(store)
    assert open_changes(store) == []


def test_decided_changes_are_swept_with_the_ledger(store: Store) -> None:
    dreamt(store, COFFEE)
    sweep(store, utc_now() + timedelta(days=10_000))
    assert decided(store) == [(1, "waiting")]
    decide_changes(store, {1: Decision.DECLINED}, {})
    sweep(store, utc_now() + timedelta(days=20_000))
    assert decided(store) == []
