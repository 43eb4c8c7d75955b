"""Proposals: changes that only their owner may allow, over dreams, restores, a kill, and weeks without a look."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.config.settings import Config, DreamSection, load
from daemon.dream.proposals import Answered, AnsweredBefore, drop_stale, open_proposals, settle
from daemon.journal.restore import restore
from daemon.journal.undo import undo
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.status import status
from daemon.workspace.stores import Store, utc_now
from state.document.asking import Ask
from state.document.operations import Why
from state.errors import NotFoundError, RejectedError
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


@pytest.fixture(scope="module", autouse=True)
def _model() -> Iterator[None]:
    with revises({COFFEE: TEA, f"{COFFEE}!": TEA, NEW_PORT: OLD_PORT}):
        yield


def opened(folder: Path, ask: Ask = Ask.OWN) -> AbstractContextManager[Store]:
    return working(folder, ruled(ask))


def ruled(ask: Ask) -> Config:
    return load(None).model_copy(update={"dream": DreamSection(ask=ask)})


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace after its first dream, with one line that its owner wrote by hand."""
    root = tmp_path_factory.mktemp("begun") / "agent"
    with opened(root) as store:
        dreamt(store, OLD_PORT)
        write(store.workspace, lambda text: added(text, TEA))
        dreamt(store, "Grace plays chess")
    return root


@pytest.fixture
def store(begun: Path, tmp_path: Path) -> Iterator[Store]:
    with opened(copy_of(begun, tmp_path / "agent").root) as store:
        yield store


def lines(store: Store) -> set[str]:
    return set(lines_of(store.workspace)) - {"Grace plays chess"}


def waiting(store: Store) -> dict[int, str]:
    return {one.number: one.operation.text for one, _ in open_proposals(store)}


def accept(store: Store, *numbers: int) -> Answered:
    return settle(store, numbers, ())


def test_a_line_by_hand_waits_and_the_rest_is_committed(store: Store) -> None:
    outcome = dreamt(store, COFFEE, NEW_PORT)
    assert ([one.why for one in outcome.dream.proposed], outcome.proposals) == (["L2 was written by hand"], 1)
    assert lines(store) == {TEA, NEW_PORT}
    assert waiting(store) == {1: COFFEE}
    assert tuple(store.notes.each_pending()) == ()
    # Its input is taken in, and what comes later does not propose it again.
    dreamt(store, "The harbour wall is of granite")
    assert waiting(store) == {1: COFFEE}
    assert status(store.workspace, store.config, utc_now()).proposals == 1


def test_an_accepted_one_is_a_version_that_a_restore_takes_back(store: Store) -> None:
    dreamt(store, COFFEE)
    number = accept(store, 1).version or 0
    done = store.memory.version(number)
    assert (done.cause, done.reason, done.author) == ("review", "accepted 1", "owner")
    assert lines(store) == {COFFEE, OLD_PORT}
    assert waiting(store) == {}
    (life,) = store.lineage.lives(TEA)
    assert (life.fate, life.died_in) == (Why.REVISED, number)
    assert TEA in {crystal.text for crystal in store.crystals.get([life.crystal])}
    restore(store, number - 1)
    assert (lines(store), waiting(store)) == ({TEA, OLD_PORT}, {1: COFFEE})


def test_an_answer_that_is_given_twice_is_told_and_changes_nothing(store: Store) -> None:
    dreamt(store, COFFEE)
    version = accept(store, 1).version
    for again in (accept(store, 1), settle(store, (), (1,))):
        assert (again.version, again.already) == (None, (AnsweredBefore(1, "accepted"),))
    assert (store.lineage.last_version(), lines(store)) == (version, {COFFEE, OLD_PORT})


@pytest.mark.parametrize("verdict", ["accepted", "declined"])
def test_an_answer_is_taken_back_and_that_too(store: Store, verdict: str) -> None:
    dreamt(store, COFFEE)
    number, tombstones = store.lineage.last_version() + 1, store.lineage.tombstones()
    settle(store, *(((1,), ()) if verdict == "accepted" else ((), (1,))))
    answered = (lines(store), store.lineage.tombstones())
    undo(store, [str(number)])
    assert (lines(store), waiting(store), store.lineage.tombstones()) == ({TEA, OLD_PORT}, {1: COFFEE}, tombstones)
    undo(store, [str(number + 1)])
    assert ((lines(store), store.lineage.tombstones()), waiting(store)) == (answered, {})
    undo(store, [str(number + 2)])
    assert accept(store, 1).accepted == (1,)
    assert lines(store) == {COFFEE, OLD_PORT}


def test_a_restore_that_is_taken_back_brings_back_what_waited_and_consumes_its_notes_again(store: Store) -> None:
    last = store.lineage.last_version()
    dreamt(store, COFFEE)
    restore(store, last)
    undo(store, [str(store.lineage.last_version())])
    assert (waiting(store), tuple(store.notes.each_pending())) == ({1: COFFEE}, ())


def test_a_restore_to_before_the_dream_that_asked_makes_its_note_pending_and_asks_anew(store: Store) -> None:
    last = store.lineage.last_version()
    dreamt(store, COFFEE)
    restore(store, last)
    assert waiting(store) == {}
    assert [note.text for note in store.notes.each_pending()] == [COFFEE]
    dreamt(store)
    assert waiting(store) == {2: COFFEE}  # no number is given twice


def test_what_is_declined_is_not_proposed_again(store: Store) -> None:
    dreamt(store, COFFEE)
    done = settle(store, (), (1,))
    assert (done.declined, done.accepted) == ((1,), ())
    with pytest.raises(RejectedError, match="the owner deleted this line"):  # this model says nothing else
        dreamt(store, f"{COFFEE}!")
    assert (waiting(store), TEA in lines(store)) == ({}, True)


def test_what_nobody_answers_is_dropped(store: Store) -> None:
    dreamt(store, COFFEE)
    assert drop_stale(store, utc_now() + timedelta(days=13)) == 0
    assert drop_stale(store, utc_now() + WEEKS) == 1
    assert (waiting(store), tuple(store.notes.each_pending())) == ({}, ())
    assert COFFEE in {
        crystal.text
        for crystal in store.crystals.get(
            store.crystals.ids_of(
                [row[0] for row in store.connection.execute("SELECT digest FROM crystals")]
            ).values()
        )
    }


def test_one_whose_line_the_owner_changed_is_not_shown_and_not_applied(store: Store) -> None:
    dreamt(store, COFFEE)
    write(store.workspace, lambda text: text.replace(TEA, "Ada drinks water in the morning"))
    assert waiting(store) == {}
    done = accept(store, 1)
    assert (done.version, done.outdated, done.accepted) == (None, (1,), ())
    assert "Ada drinks water in the morning" in lines(store)
    with pytest.raises(NotFoundError, match="no proposal 1 waits"):
        accept(store, 1)


def test_one_that_was_cut_off_is_finished_once(store: Store, tmp_path: Path) -> None:
    dreamt(store, COFFEE)
    root = store.workspace.root
    store.memory.disk.system = _CutAtTheSwap()
    with pytest.raises(PowerCut):
        accept(store, 1)
    with opened(copy_of(root, tmp_path / "after").root) as after:
        assert lines(after) == {COFFEE, OLD_PORT}
        assert waiting(after) == {}


def test_nothing_is_answered_when_one_of_them_is_unknown(store: Store) -> None:
    dreamt(store, COFFEE)
    with pytest.raises(NotFoundError):
        settle(store, (9,), (1,))
    assert waiting(store) == {1: COFFEE}


def test_every_change_is_asked_about_where_the_owner_wants_it(begun: Path, tmp_path: Path) -> None:
    with opened(copy_of(begun, tmp_path / "all").root, Ask.ALL) as store:
        before = lines(store)
        dreamt(store, NEW_PORT, "The harbour wall is of granite")
        assert lines(store) == before
        assert set(waiting(store).values()) == {NEW_PORT, "The harbour wall is of granite"}
        accept(store, *waiting(store))
        assert lines(store) == {TEA, NEW_PORT, "The harbour wall is of granite"}


def test_a_forgotten_one_stops_no_dream(store: Store) -> None:
    dreamt(store, COFFEE)
    forget(store, ForgetRequest(COFFEE), utc_now())
    assert waiting(store) == {}
    dreamt(store, "The harbour wall is of granite")
    assert "The harbour wall is of granite" in lines(store)
