"""Lines of MEMORY.md one by one: what is known of each, and changes of them without an editor."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings import load
from daemon.dream.standing import SHOWN_CHARACTERS, Line, shown, standing_lines
from daemon.journal.lines import change
from daemon.journal.restore import restore
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction, Wish
from state.bootstrap import bootstrap
from state.crystals.supersession import Cause, Supersession
from state.document.document import parse
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import Dream
from state.errors import ConflictError, RejectedError
from state.stores.disk.syscalls import System
from state.trust import Trust
from tests.support.committing import added, dreamt
from tests.support.copies import copy_of
from tests.support.revising import revises
from tests.support.working import SECRET, document, standing, wish, working

TEA, PORT, WALL = (
    "Ada prefers tea in the morning",
    "The staging server listens on port 8080",
    "The harbour wall is of granite",
)

COCOA, NEW_PORT = "Ada prefers cocoa in the morning", "The staging server listens on port 9090"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace after its first dream."""
    root = tmp_path_factory.mktemp("begun") / "agent"
    with working(root) as store:
        dreamt(store, TEA, PORT, WALL)
    return root


@pytest.fixture
def store(begun: Path, tmp_path: Path) -> Iterator[Store]:
    with working(copy_of(begun, tmp_path / "agent").root) as store:
        yield store


def write(store: Store, text: str) -> None:
    store.workspace.document.write_text(text, encoding="utf-8")


def texts(store: Store) -> list[str]:
    return [block.text for _, block in parse(document(store)).lines()]


def done(store: Store, *wishes: Wish) -> Dream:
    return change(store, wishes)[0]


def edit(store: Store, old: str, text: str, **more: Any) -> Dream:
    return done(store, wish(store, LineAction.EDIT, old, text, **more))


def tombstones(store: Store) -> list[str]:
    return store.lineage.tombstones()


def fields(refused: pytest.ExceptionInfo[Any]) -> Any:
    return refused.value.details["fields"]


def test_all_that_is_wanted_is_one_version_by_the_owner(store: Store) -> None:
    version = done(
        store,
        wish(store, LineAction.EDIT, TEA, COCOA),
        wish(store, LineAction.DELETE, PORT),
        wish(store, LineAction.PIN, WALL),
        Wish(LineAction.ADD, section=SectionName.PHENOTYPE, text="Answers are short"),
    )
    assert (version.number, version.cause, version.author) == (2, "edit", "owner")
    assert version.reason == "1 edited, 1 deleted, 1 pinned, 1 added"
    assert texts(store) == ["Answers are short", WALL, COCOA]
    assert f"- {WALL} 📌\n" in document(store)
    (run,) = store.ledger.runs(1)
    assert (run.reason, run.outcome, run.version) == ("edit by the owner", "committed", 2)
    found = standing(store)
    assert {text: (one.author, one.trust, one.pinned, one.version) for text, one in found.items()} == {
        "Answers are short": ("owner", Trust.OWNER, False, 2),
        COCOA: ("owner", Trust.OWNER, False, 2),
        WALL: ("extractive", Trust.AGENT, True, 1),
    }
    (gone,) = store.lineage.lives(TEA)
    assert (gone.fate, gone.successor, gone.died_in) == (Why.REVISED, found[COCOA].id, 2)
    (deleted,) = store.lineage.lives(PORT)
    assert (deleted.fate, deleted.died_in) == (Why.DELETED, 2)
    assert tombstones(store) == [PORT]


def test_an_edit_is_what_the_same_edit_of_the_file_is(store: Store, tmp_path: Path) -> None:
    edit(store, PORT, NEW_PORT)
    with working(tmp_path / "by hand") as other:
        dreamt(other, TEA, PORT, WALL)
        write(other, document(other).replace(PORT, NEW_PORT))
        dreamt(other, "Grace plays chess")

        def known(one: Store) -> Sequence[object]:
            (life,) = one.lineage.lives(NEW_PORT)
            evidence = [(crystal.text, crystal.origin) for crystal in one.crystals.get(life.evidence)]
            (old,) = one.lineage.lives(PORT)
            pairs = one.crystals.connection.execute("SELECT cause, trust FROM supersessions").fetchall()
            return (
                life.trust,
                evidence,
                old.fate,
                tombstones(one),
                life.id in one.lineage.handwritten(),
                set(map(tuple, pairs)),
            )

        assert known(store) == known(other)


def test_a_restore_brings_back_lines_pins_and_tombstones(store: Store) -> None:
    done(store, wish(store, LineAction.DELETE, WALL), wish(store, LineAction.PIN, TEA))
    before, kept = document(store), tombstones(store)
    done(
        store,
        wish(store, LineAction.UNPIN, TEA),
        wish(store, LineAction.EDIT, PORT, NEW_PORT),
        Wish(LineAction.ADD, section=SectionName.CONTEXT, text=WALL, again=True),
    )
    assert tombstones(store) == [PORT]
    restore(store, 2)
    assert document(store) == before
    assert tombstones(store) == kept == [WALL]
    restore(store, 3)
    assert tombstones(store) == [PORT]
    assert f"{TEA} 📌" not in document(store)


def test_what_was_deleted_is_written_again_only_if_that_is_meant(store: Store) -> None:
    edit(store, PORT, NEW_PORT)
    with pytest.raises(RejectedError, match="the owner deleted this line"):
        edit(store, NEW_PORT, PORT)
    edit(store, NEW_PORT, PORT, again=True)
    assert PORT in texts(store)
    assert tombstones(store) == [NEW_PORT]


def test_a_line_that_says_something_else_by_now_is_not_changed(store: Store) -> None:
    wanted = wish(store, LineAction.DELETE, TEA)
    digest = standing_lines(store, utc_now()).digest
    write(store, document(store).replace(TEA, COCOA))
    with pytest.raises(ConflictError, match="does not stand") as refused:
        done(store, wish(store, LineAction.DELETE, PORT), wanted)
    assert list(fields(refused)) == ["changes.1"]
    with pytest.raises(ConflictError, match="says something else"):
        done(store, Wish(LineAction.DELETE, standing(store)[PORT].id, expected=WALL))
    with pytest.raises(ConflictError, match="not what it was"):
        change(store, [wish(store, LineAction.DELETE, PORT)], digest)
    assert texts(store) == [WALL, PORT, COCOA]
    assert [one.cause for one in store.lineage.versions(9)] == ["human", "dream"]


def test_a_line_that_no_version_knows_is_named_by_its_text(store: Store) -> None:
    write(store, added(document(store), "Ada's sister is called Grace"))
    assert standing(store)["Ada's sister is called Grace"].id == ""
    wanted = Wish(
        LineAction.EDIT, section=SectionName.BOND, expected="Ada's sister is called Grace", text="Grace is her niece"
    )
    version = done(store, wanted)
    assert texts(store) == ["Grace is her niece", WALL, PORT, TEA]
    assert ("Grace is her niece", Trust.OWNER) in [(one.text, one.trust) for one in version.came]
    # What was written into the file is a version of its own: the one before the change holds it.
    assert version.number == 3
    restore(store, 2)
    assert texts(store) == ["Ada's sister is called Grace", WALL, PORT, TEA]


def test_a_save_in_the_same_moment_is_kept_beside_it_and_wins_where_both_changed_a_line(store: Store) -> None:
    class Saving(System):
        """The owner saves in an editor between the reading of the file and its swap."""

        saved = False

        def exchange(self, one: Path, other: Path, /) -> None:
            if not self.saved:
                self.saved = True
                write(store, added(document(store), "Grace is her sister").replace(TEA, "Ada drinks water"))
            super().exchange(one, other)

    store.memory.disk.system = Saving()
    changed = done(
        store,
        wish(store, LineAction.EDIT, TEA, COCOA),
        wish(store, LineAction.DELETE, PORT),
        wish(store, LineAction.PIN, WALL),
    )
    assert changed.joined
    assert texts(store) == ["Grace is her sister", WALL, "Ada drinks water"]
    assert f"{WALL} 📌" in document(store)
    assert not store.connection.execute("SELECT 1 FROM supersessions").fetchall()
    outcome = dreamt(store, "The kettle of house 9 was repaired")
    assert (outcome.refused, outcome.proposals) == ((), 0)
    assert {"Grace is her sister", "Ada drinks water", WALL, "The kettle of house 9 was repaired"} == set(
        texts(store)
    )
    assert standing(store)["Ada drinks water"].author == "owner"


def test_before_the_first_dream_there_is_the_file(tmp_path: Path) -> None:
    with working(tmp_path / "new") as store:
        write(store, "# Notes\n\n- Ada likes tea\n")
        with pytest.raises(ConflictError, match="no dream has read"):
            done(store, Wish(LineAction.ADD, section=SectionName.BOND, text="Ada"))


def test_a_secret_stands_as_it_would_by_hand(store: Store) -> None:
    text = f"The token of the build is {SECRET}"
    edit(store, PORT, text)
    assert text in texts(store)
    assert not [row for row in store.connection.execute("SELECT text FROM crystals") if SECRET in row[0]]
    shown = next(one for one in standing(store) if "token" in one)
    assert SECRET not in shown
    done(store, wish(store, LineAction.DELETE, shown))
    assert text not in texts(store)


def test_each_line_says_who_wrote_it_and_when(store: Store) -> None:
    write(store, added(document(store), "Ada's sister is called Grace"))
    found = standing_lines(store, utc_now() + timedelta(days=2))
    known = {line.text: line for section in found.sections for line in section.lines}
    given = bootstrap(document(store), (), 200_000, as_of="2026-01-01").text
    assert (found.version, found.budget, found.characters) == (1, 8_000, len(given))
    tea = known[TEA]
    assert (tea.id, tea.version, tea.author, tea.trust, tea.evidence) == ("L1", 1, "extractive", Trust.AGENT, 1)
    assert tea.age_days == 2.0
    mine = known["Ada's sister is called Grace"]
    assert (mine.id, mine.version, mine.author, mine.trust, mine.age_days) == ("", None, "owner", Trust.OWNER, None)
    dreamt(store, "Grace plays chess")
    assert standing(store)[mine.text].author == "owner"
    restore(store, 1)
    restore(store, 3)
    assert standing(store)["Grace plays chess"].author == "extractive"


def test_the_file_is_shown_in_its_order_with_what_stands_outside(store: Store) -> None:
    write(store, f"# Mine\n\nabove\n\n{document(store)}\n## Also mine\n\n- below 📌\n")
    found = standing_lines(store, utc_now())
    shown_lines = [(one.name, one.heading, [line.text for line in one.lines]) for one in found.sections if one.lines]
    assert shown_lines == [
        ("", "# Mine", ["above"]),
        ("Active Context", "## Active Context", [WALL, PORT, TEA]),
        ("", "## Also mine", ["below"]),
    ]
    assert standing(store)["below"].pinned
    assert len(found.sections) == 10  # the seven, the title, and the owner's two


def test_a_line_whose_ground_is_superseded_says_by_what_and_since_when(store: Store) -> None:
    dreamt(store, "Ada drinks water at noon")
    evidence = store.lineage.evidence()
    keys = store.crystals.keys([evidence["L1"][0], evidence["L4"][0]])
    older, newer = keys[evidence["L1"][0]], keys[evidence["L4"][0]]
    now = utc_now()
    store.supersessions.record([Supersession(older, newer, now, Trust.OWNER, Cause.OWNER)])
    found = standing(store)
    assert found[TEA].superseded_by == "Ada drinks water at noon"
    assert found[TEA].superseded_at is not None
    assert (found[PORT].superseded_by, found[PORT].superseded_at) == ("", None)


def test_a_line_says_which_proposal_would_change_it(store: Store) -> None:
    write(store, document(store).replace(PORT, f"{PORT} for now"))
    dreamt(store, "Grace plays chess")
    with revises({NEW_PORT: PORT, COCOA: TEA}):
        thinking = replace(store, config=load(None))
        dreamt(thinking, NEW_PORT, COCOA)  # of a line by hand its owner is asked
    assert {text: line.proposed for text, line in standing(store).items() if line.proposed} == {f"{PORT} for now": 1}


def test_no_secret_and_no_more_than_the_beginning_is_shown(store: Store) -> None:
    write(store, added(document(store), f"the token is {SECRET}, {'word ' * 400}"))
    (long,) = [line for line in standing(store).values() if "token" in line.text]
    assert SECRET not in long.text
    assert (len(long.text), long.cut) == (SHOWN_CHARACTERS, True)
    change(store, [Wish(LineAction.DELETE, section=SectionName.BOND, expected=long.text)])
    assert "token" not in document(store)
    assert not any("token" in text for text in standing(store))
    assert shown(store, SECRET * 500)[0].count(SECRET) == 0


def test_pages_together_are_the_whole(store: Store) -> None:
    rows = "".join(f"- Shelf {number} holds boxes\n" for number in range(40))
    write(store, document(store).replace(f"- {PORT}\n", rows + f"- {PORT}\n"))
    whole = standing_lines(store, utc_now())
    assert whole.more == 0
    for limit in (1, 7, 50):
        start, together, headings = 0, list[Line](), list[str]()
        while True:
            page = standing_lines(store, utc_now(), start, limit)
            together += [line for section in page.sections for line in section.lines]
            headings += [section.heading for section in page.sections]
            start += limit
            if not page.more:
                break
        expected = [line for section in whole.sections for line in section.lines]
        assert [line.text for line in together] == [line.text for line in expected]
        assert list(dict.fromkeys(headings)) == [section.heading for section in whole.sections]
    assert standing_lines(store, utc_now(), 10**9, 10).sections == ()
