"""What several workspaces agree on: proposed to the person's global one, once, and never applied by itself."""

import os
import shutil
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from daemon.dream.agreements import propose_agreements
from daemon.dream.proposals import drop_stale, settle
from daemon.workspace.adoption import init_global_workspace, init_workspace
from daemon.workspace.stores import Store, utc_now
from state.document.operations import Action
from state.document.sections import SectionName
from state.stores.database.tables import Proposal
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.places import keep_place
from state.stores.disk.workspace import Workspace
from state.stores.history.proposals import Proposals
from tests.support.committing import dreamt as dreamt_in
from tests.support.working import working

pytestmark = pytest.mark.usefixtures("own_folders")
TEA, SHORT, SHORTLY = "Ada prefers tea over coffee", "Ada wants short answers", "ada wants  SHORT answers"

SECRET = "Ada's token is ghp_" + "a1B2" * 9


def opened(workspace: Workspace) -> AbstractContextManager[Store]:
    return working(workspace.root)


def dreamt(workspace: Workspace, note: str = "The staging server listens on port 8080") -> None:
    with opened(workspace) as store:
        dreamt_in(store, f"{note} ({store.lineage.last_version()})")


def project(folder: Path, *lines: str, section: SectionName = SectionName.BOND) -> Workspace:
    """A project of this person's, whose MEMORY.md has these lines by hand, and a dream that has seen them."""
    workspace = init_workspace(folder)
    if not workspace.document.exists():
        workspace.document.write_text("", encoding="utf-8")
        dreamt(workspace)
    rows = "".join(f"- {line}\n" for line in lines)
    text = workspace.document.read_text(encoding="utf-8")
    heading = f"## {section.value}\n\n"
    workspace.document.write_text(text.replace(heading, f"{heading}{rows}\n"), encoding="utf-8")
    dreamt(workspace, "The certificate expires in May")
    return workspace


def proposed(everywhere: Workspace) -> list[Proposal]:
    with opened(everywhere) as store:
        propose_agreements(store, utc_now())
        return Proposals(store.connection).all()


def answer(everywhere: Workspace, *, accept: tuple[int, ...] = (), decline: tuple[int, ...] = ()) -> None:
    with opened(everywhere) as store:
        settle(store, accept, decline)


@pytest.fixture
def everywhere() -> Workspace:
    return init_global_workspace()


def test_what_two_workspaces_say_waits_in_the_global_one_and_names_them(
    tmp_path: Path, everywhere: Workspace
) -> None:
    one = project(tmp_path / "one", TEA, SHORT)
    assert proposed(everywhere) == []
    two = project(tmp_path / "two", SHORTLY, "Ada lives in Berlin")
    (one_line,) = proposed(everywhere)
    operation = one_line.operation
    assert (operation.action, operation.section, operation.text) == (Action.ADD, SectionName.BOND, SHORT)
    assert one_line.why == f"2 of your workspaces say so: {one.root}, {two.root}"
    assert not everywhere.document.exists()
    assert [again.number for again in proposed(everywhere)] == [one_line.number]


def test_it_is_a_line_when_its_owner_accepts_it_and_is_not_proposed_again(
    tmp_path: Path, everywhere: Workspace
) -> None:
    for name in ("one", "two"):
        project(tmp_path / name, SHORT)
    (one,) = proposed(everywhere)
    answer(everywhere, accept=(one.number,))
    text = everywhere.document.read_text(encoding="utf-8")
    assert SHORT in text.partition(SectionName.BOND.value)[2]
    project(tmp_path / "three", SHORTLY)
    assert proposed(everywhere) == []
    everywhere.document.write_text(text.replace(f"- {SHORT}\n", ""), encoding="utf-8")
    dreamt(everywhere)
    project(tmp_path / "four", SHORT)
    assert proposed(everywhere) == []


def test_what_nobody_answers_waits_on_and_what_is_declined_is_not_asked_again(
    tmp_path: Path, everywhere: Workspace
) -> None:
    for name in ("one", "two"):
        project(tmp_path / name, SHORT)
    (one,) = proposed(everywhere)
    with opened(everywhere) as store:
        assert drop_stale(store, utc_now().replace(year=2100)) == 0
    answer(everywhere, decline=(one.number,))
    project(tmp_path / "three", SHORT)
    assert proposed(everywhere) == []


@pytest.mark.parametrize(
    ("line", "section"), [(SHORT, SectionName.CONTEXT), (SHORT, SectionName.NICHE), (SECRET, SectionName.BOND)]
)
def test_other_sections_and_secrets_are_of_their_workspace_alone(
    tmp_path: Path, everywhere: Workspace, line: str, section: SectionName
) -> None:
    for name in ("one", "two"):
        project(tmp_path / name, line, section=section)
    assert proposed(everywhere) == []


def test_what_an_agent_noted_is_no_word_of_the_owners(tmp_path: Path, everywhere: Workspace) -> None:
    for name in ("one", "two"):
        workspace = init_workspace(tmp_path / name)
        dreamt(workspace, TEA)
        assert TEA in workspace.document.read_text(encoding="utf-8")
    assert proposed(everywhere) == []


def test_nothing_is_read_of_a_workspace_that_is_foreign_or_left_alone(tmp_path: Path, everywhere: Workspace) -> None:
    one, two = (project(tmp_path / name, SHORT) for name in ("one", "two"))
    keep_place(two.state.parent, two.name, kept=False)
    shutil.copytree(one.root, tmp_path / "cloned")
    assert proposed(everywhere) == []


@pytest.mark.parametrize("name", ["one", "three", "global"])
def test_what_is_forgotten_in_any_workspace_is_not_proposed(tmp_path: Path, everywhere: Workspace, name: str) -> None:
    found = {one: project(tmp_path / one, SHORT) for one in ("one", "two")}
    found |= {"three": project(tmp_path / "three", "Ada lives in Berlin"), "global": everywhere}
    with opened(found[name]) as store:
        TombstoneStore(store.connection).block_texts([SHORT], utc_now())
    assert proposed(everywhere) == []


def test_only_the_global_workspace_is_proposed_to(tmp_path: Path, everywhere: Workspace) -> None:
    projects = [project(tmp_path / name, SHORT) for name in ("one", "two")]
    with opened(projects[0]) as store:
        assert propose_agreements(store, utc_now()) == 0
        assert Proposals(store.connection).all() == []


@pytest.mark.parametrize("what", ["document", "database", "root"])
def test_one_that_cannot_be_read_is_left_out(tmp_path: Path, everywhere: Workspace, what: str) -> None:
    for name in ("one", "two"):
        project(tmp_path / name, SHORT)
    broken = project(tmp_path / "broken", SHORT)
    place = {"document": broken.document, "database": broken.database, "root": broken.root}[what]
    place.rename(tmp_path / "away")
    if what == "document":
        os.mkfifo(place)
    elif what == "database":
        place.write_bytes(b"no database " * 1_000)
    (one,) = proposed(everywhere)
    assert one.why.startswith("2 of your workspaces")
    assert len(proposed(everywhere)) == 1
    (tmp_path / "one").rename(tmp_path / "elsewhere")  # what it says is not taken back by that
    assert len(proposed(everywhere)) == 1


def test_twenty_wait_at_most_and_the_others_come_when_some_are_decided(tmp_path: Path, everywhere: Workspace) -> None:
    cities = (
        "Oslo Bergen Turin Lyon Porto Graz Bern Basel Kiel Ulm Pisa Nice Gent Cork York Bath Lund Riga Brno Cadiz"
    )
    texts = [f"Ada has a friend in {city}" for city in (*cities.split(), "Vigo", "Split")]
    for name in ("one", "two"):
        project(tmp_path / name, *texts)
    first = proposed(everywhere)
    assert len(first) == 20
    assert len(proposed(everywhere)) == 20
    answer(everywhere, decline=(first[0].number,))
    later = {one.operation.text for one in proposed(everywhere)}
    assert len(later) == 20
    assert later > {one.operation.text for one in first[1:]}


def test_what_fails_while_they_are_written_costs_a_repetition(tmp_path: Path, everywhere: Workspace) -> None:
    for name in ("one", "two"):
        project(tmp_path / name, SHORT)
    with opened(everywhere) as store:
        full = "BEGIN SELECT RAISE(ABORT, 'full'); END"
        store.connection.execute(f"CREATE TEMP TRIGGER fail BEFORE INSERT ON main.proposals {full}")
        with pytest.raises(sqlite3.Error, match="full"):
            propose_agreements(store, utc_now())
    assert len(proposed(everywhere)) == 1
