"""One person, several folders: a home that is no project, what is true everywhere."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.stores.disk.places import kept_roots
from tests.support.folders import PLACE
from tests.support.running import Caller


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home folder of somebody who has nothing yet. Its path is short: that of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="home-", dir=PLACE) as folder:
        home = Path(folder) / "ada"
        home.mkdir()
        for name, path in {"HOME": home, "XDG_STATE_HOME": home / "state", "XDG_DATA_HOME": home / "data"}.items():
            monkeypatch.setenv(name, str(path))
        yield home
        monkeypatch.undo()


def kept(home: Path) -> list[str]:
    return sorted(map(str, kept_roots(home / "data/dreamd")))


def test_a_home_folder_is_a_workspace_for_who_says_so_and_for_nothing_below_it(
    home: Path, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "MEMORY.md").write_text("- Ada prefers tea\n", encoding="utf-8")
    monkeypatch.chdir(home)
    for words in (("init",), ("init", home), ("init", "/")):
        ended = dreamd(*words)
        assert (ended.status, "is no project" in ended.err, "--global" in ended.err) == (2, True, True)
    for words in (("dream",), ("dream", home)):
        assert dreamd(*words).status == 2
    assert not (home / ".dreamd").exists()
    assert dreamd("init", "--here").status == 0
    assert dreamd("init").status == 0
    assert dreamd("note", "for the home folder").status == 0
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    assert dreamd("note", "for the project").status == 2
    assert dreamd("init").status == 0
    assert kept(home) == [str(home), str(home / "project")]


@pytest.mark.full
def test_a_note_for_everywhere_makes_the_global_workspace_and_is_found_from_anywhere(
    home: Path, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    assert dreamd("init").status == 0
    for words in (("search", "tea", "--global"), ("status", "-g")):
        ended = dreamd(*words)
        assert (ended.status, "dreamd init --global" in ended.err) == (2, True)
    assert dreamd("note", "--global", "Ada prefers tea").status == 0
    assert str(home / "data/dreamd/global") in kept(home)
    monkeypatch.setenv("DREAMD_WORKSPACE", str(home / "project"))
    assert dreamd("note", "-g", "Ada", "reads", "Borges").status == 0
    assert dreamd("status", "--global", "--json").json["pending"]["notes"] == 2
    assert dreamd("dream", "--global").status == 0
    assert "Ada prefers tea" in dreamd("bootstrap", "-g").out
    assert "Ada reads Borges" in dreamd("search", "-g", "Borges").out
    assert "Borges" not in dreamd("search", "Borges").out
    assert "L1  The Bond" in dreamd("why", "--global", "Ada prefers tea").out
    assert dreamd("forget", "-g", "Borges", "--yes").status == 0
    assert "Borges" not in dreamd("search", "-g", "Borges").out
    assert "nothing waits" in dreamd("review", "--global").err
    assert dreamd("doctor", "--global").status == 0
    made = dreamd("init", "--global", "--json").json
    assert (made["workspace"], made["created"]) == (str(home / "data/dreamd/global"), False)


@pytest.mark.full
def test_what_two_projects_have_by_hand_is_proposed_for_everywhere_and_declined_for_good(
    home: Path, dreamd: Caller
) -> None:
    for name in ("one", "two", "three"):
        assert dreamd("init", home / name).status == 0
        memory, bond = home / name / "MEMORY.md", "## The Bond\n\n"
        assert dreamd("note", "-w", home / name, f"{name} listens on port 8080").status == 0
        assert dreamd("dream", home / name).status == 0
        text = memory.read_text("utf-8").replace(bond, f"{bond}- Ada prefers tea\n- Ada reads {name}\n\n")
        memory.write_text(text, "utf-8")
        assert dreamd("note", "-w", home / name, f"{name} has a certificate").status == 0
        assert dreamd("dream", home / name).status == 0
    assert dreamd("init", "--global").status == 0
    asked = dreamd("dream", "--global")
    assert (asked.status, "workspaces agree on 1 line" in asked.err) == (3, True)
    shown = dreamd("review", "--global").out
    assert "Ada prefers tea" in shown
    assert all(str(home / name) in shown for name in ("one", "two", "three"))
    assert "Ada reads" not in shown
    assert "tea" not in dreamd("bootstrap", "--global").out
    assert dreamd("review", "--global", "--decline", "1").status == 0
    assert dreamd("note", "-w", home / "one", "one listens on port 9090").status == 0
    assert dreamd("dream", home / "one").status == 0
    assert dreamd("dream", "--global").status == 3
    assert dreamd("review", "--global").status == 3


@pytest.mark.parametrize(
    "words",
    [
        ("note", "-g", "-w", ".", "x"),
        ("status", ".", "-g"),
        ("search", "--global", "--workspace", ".", "x"),
        ("init", "--global", "."),
        ("dream", "-g", "."),
        ("bootstrap", ".", "--global"),
    ],
    ids=" ".join,
)
def test_the_global_workspace_and_another_one_are_two(home: Path, dreamd: Caller, words: tuple[str, ...]) -> None:
    ended = dreamd(*words)
    assert (ended.status, ended.err.count("--global is a workspace")) == (2, 1)
    assert list(home.iterdir()) == []
