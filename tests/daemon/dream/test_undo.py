"""Undo: every change of every version is taken back by its name, as long as its lines stand as it left them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.dream.standing import standing_lines
from daemon.journal.correct import put_right
from daemon.journal.lines import change
from daemon.journal.mentions import subject_of
from daemon.journal.restore import restore
from daemon.journal.story import latest_entries
from daemon.journal.undo import undo
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction, Wish
from state.document.document import parse
from state.document.sections import SectionName
from state.errors import NotFoundError, UsageError
from tests.support.committing import dreamt
from tests.support.copies import copy_of
from tests.support.revising import revises
from tests.support.working import document, standing, wish, working

TEA, PORT, WALL = "Ada prefers tea in the morning", "The server listens on port 8080", "The wall is of granite"
NEW_PORT = "The server listens on port 9090"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("begun") / "agent"
    with revises({NEW_PORT: PORT}), working(root) as store:
        dreamt(store, TEA, PORT, WALL)
    return root


@pytest.fixture
def store(begun: Path, tmp_path: Path) -> Iterator[Store]:
    with revises({NEW_PORT: PORT}), working(copy_of(begun, tmp_path / "agent").root) as store:
        yield store


def known(store: Store) -> dict[str, tuple[Any, ...]]:
    """What is known of each line: section, pin, author, age and importance."""
    found = standing_lines(store, utc_now())
    return {
        line.text: (section.name, line.pinned, line.author, line.trust, line.born_at, line.importance, line.version)
        for section in found.sections
        for line in section.lines
    }


def by_model(store: Store) -> None:
    dreamt(store, NEW_PORT)


def by_hand(store: Store) -> None:
    text = document(store).replace(f"- {WALL}\n", "").replace(TEA, "Ada prefers cocoa")
    store.workspace.document.write_text(text)
    dreamt(store, "Grace plays chess")


DEEDS: dict[str, Any] = {
    "a dream": by_model,
    "deleted": lambda store: change(store, [wish(store, LineAction.DELETE, WALL)]),
    "edited": lambda store: change(store, [wish(store, LineAction.EDIT, PORT, NEW_PORT)]),
    "wrong": lambda store: put_right(store, subject_of(store, PORT), NEW_PORT, ()),
    "pinned": lambda store: change(store, [wish(store, LineAction.PIN, WALL)]),
    "several": lambda store: change(store, [wish(store, LineAction.DELETE, TEA), wish(store, LineAction.PIN, WALL)]),
    "restored": lambda store: restore(store, 1),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_version_of_any_cause_is_undone_and_lines_come_back_as_they_were(store: Store, deed: str) -> None:
    if deed == "restored":
        by_model(store)
    before = known(store)
    DEEDS[deed](store)
    version = store.lineage.last_version()
    done = undo(store, [str(version)])
    assert (done.version, done.outdated) == (version + 1, ())
    assert list(known(store).items()) == list(before.items())  # each where it stood
    assert undo(store, [str(version)]).version is None
    # What holds is what stands again.
    assert not any(one.superseded_by for one in standing(store).values())
    dreamt(store, "Grace plays chess")  # what came back is not deleted again
    assert set(known(store)) == {*before, "Grace plays chess"}


def test_what_was_saved_in_an_editor_is_undone_change_by_change(store: Store) -> None:
    by_hand(store)
    (name,) = [one.name for one in latest_entries(store, 50) if [line.text for line in one.old] == [WALL]]
    assert undo(store, [name]).undone == (name,)
    assert {WALL, "Ada prefers cocoa"} <= set(known(store))


def test_an_added_line_that_is_undone_is_not_written_again(store: Store) -> None:
    dreamt(store, "Grace plays chess")
    name = latest_entries(store, 1)[0].name
    undo(store, [name])
    dreamt(store, "Grace plays chess!")
    assert set(known(store)) == {TEA, PORT, WALL}
    assert "Grace plays chess" in store.lineage.tombstones()


def test_a_change_whose_line_was_changed_since_stays(store: Store) -> None:
    by_model(store)
    name = latest_entries(store, 1)[0].name
    text = document(store).replace(NEW_PORT, "The server is off")
    store.workspace.document.write_text(text)
    assert not latest_entries(store, 1)[0].undoable
    done = undo(store, [name])
    assert (done.version, done.outdated) == (None, (name,))
    assert [block.text for _, block in parse(document(store)).lines()] == [
        block.text for _, block in parse(text).lines()
    ]


@pytest.mark.parametrize(
    ("name", "error"), [("99", NotFoundError), ("1.99", NotFoundError), ("0", UsageError), ("1.2.3", UsageError)]
)
def test_an_unknown_name_is_refused(store: Store, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        undo(store, [name])


def test_the_section_of_a_line_that_comes_back_is_its_own(store: Store) -> None:
    change(store, [Wish(LineAction.ADD, section=SectionName.BOND, text="Answers are short")])
    before = known(store)
    change(store, [wish(store, LineAction.DELETE, "Answers are short")])
    undo(store, [str(store.lineage.last_version())])
    assert known(store) == before


def test_a_change_from_before_a_forgetting_is_undone_with_its_version_alone(store: Store) -> None:
    by_model(store)
    forget(store, ForgetRequest(TEA), utc_now())
    assert latest_entries(store, 50, version=1) == ()
    with pytest.raises(NotFoundError, match="forgotten since"):
        undo(store, ["1.1"])
    assert undo(store, ["2"]).undone == ("2.1",)
    assert set(known(store)) == {PORT, WALL}
