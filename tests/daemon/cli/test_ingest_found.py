"""`dreamd ingest --found` at a terminal: what is asked, and what a no means; and what a foreign workspace is told."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.support.existing_memory import Home
from tests.support.running import Caller, Ended

WORD = "The staging database is called heron"
Answered = Callable[[str], Ended]


class Person(io.StringIO):
    """A terminal at which this is typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    made.write("my_shop/CLAUDE.md", f"{WORD}\n")
    made.claude_session("one", made.project, "I prefer tabs over spaces")
    return made


@pytest.fixture
def here(home: Home) -> Workspace:
    return init_workspace(home.project)


@pytest.fixture
def answered(dreamd: Caller, here: Workspace, monkeypatch: pytest.MonkeyPatch) -> Answered:
    """What happens when these lines are typed."""

    def ask(typed: str) -> Ended:
        monkeypatch.setattr("sys.stdin", Person(typed))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        return dreamd("ingest", "--found", "-w", here.root)

    return ask


@pytest.mark.full
@pytest.mark.parametrize(
    ("typed", "trust"), [("y\ny\n", "owner"), ("n\ny\n", "web"), ("y\nn\n", None), ("", None), ("\n\n", None)]
)
def test_a_person_says_whose_words_they_are_and_whether_they_are_wanted(
    answered: Answered, dreamd: Caller, here: Workspace, typed: str, trust: str | None
) -> None:
    ended = answered(typed)
    assert "CLAUDE.md: are these your own words? [y/N]" in ended.err
    assert "Take this in? [y/N]" in ended.err
    hits = dreamd("search", WORD, "--json", "-w", here.root).json["hits"]
    assert [hit["trust"] for hit in hits if hit["text"] == WORD] == [trust] * (trust is not None)
    assert ("nothing was taken in" in ended.out) is (trust is None)
    assert bool(hits) is (trust is not None)


def test_as_json_nothing_is_asked_and_nothing_done_unasked(dreamd: Caller, here: Workspace) -> None:
    ended = dreamd("ingest", "--found", "--json", "-w", here.root)
    assert (ended.status, ended.json["taken"], ended.err) == (0, None, "")
    assert [one["kind"] for one in ended.json["found"]] == ["instructions", "sessions"]
    assert dreamd("ingest", "--found", "--json", "--yes", "-w", here.root).json["taken"]["crystals"] == 2


def test_what_cannot_be_read_is_a_problem_and_the_rest_is_taken_in(
    dreamd: Caller, here: Workspace, home: Home
) -> None:
    (here.root / "CLAUDE.md").write_bytes(b"caf\xe9\n")
    home.write("diary.md", "nobody's business")
    (here.root / "GEMINI.md").symlink_to("../diary.md")
    ended = dreamd("ingest", "--found", "--yes", "-w", here.root)
    assert (ended.status, ended.err.count("problem: ")) == (0, 2)
    assert "1 new crystal of 1 file;" in ended.out
    assert dreamd("ingest", "--found", "gemini", "--yes", "-w", here.root).status == 1
    assert "business" not in dreamd("search", "business", "-w", here.root).out


def test_a_session_that_was_read_by_its_hook_is_read_no_second_time(
    dreamd: Caller, here: Workspace, home: Home
) -> None:
    (session,) = (home.path / ".claude/projects").rglob("one.jsonl")
    assert dreamd("ingest", session, "-w", here.root).status == 0
    taken = dreamd("ingest", "--found", "--yes", "--json", "-w", here.root).json["taken"]
    assert (taken["turns"], taken["crystals"]) == (0, 1)
