"""What was there before dreamd, from `dreamd init` to a line of MEMORY.md that names the file it is from."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.existing_memory import Home
from tests.support.folders import PLACE
from tests.support.running import Ended, process


class Person(Home):
    """Somebody who runs commands in the project."""

    def __call__(self, *words: str | Path) -> Ended:
        own: dict[str, Any] = dict(self.environment)
        return process(*words, folder=self.project, **own)

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Every file but dreamd's own, and when it was changed."""
        own = ("state", "data", ".dreamd", "memory/scratch.md", "my_shop/MEMORY.md")
        names = {str(path.relative_to(self.path)): path for path in self.path.rglob("*") if path.is_file()}
        return {
            name: (path.read_bytes(), path.stat().st_mtime_ns)
            for name, path in names.items()
            if not name.startswith(("state/", "data/")) and not any(f"/{part}" in f"/{name}" for part in own)
        }


@pytest.fixture
def ada() -> Iterator[Person]:
    with TemporaryDirectory(prefix="ada-", dir=PLACE) as folder:
        person = Person(Path(folder))
        person.worked_in()
        yield person


@pytest.mark.full
def test_from_init_to_a_line_that_names_its_file(ada: Person) -> None:
    before = ada.files()
    begun = ada("init", "--no-daemon", ada.project)
    assert "Written down before: CLAUDE.md, AGENTS.md, GEMINI.md, 4 files of agents' memory, 3 past" in begun.out
    shown = ada("ingest", "--found")
    assert (shown.status, "nothing was taken in; --yes" in shown.out) == (0, True)
    assert "CLAUDE.md, AGENTS.md, GEMINI.md: may have come with the project" in shown.err
    assert ada("search", "heron", "--json").json["hits"] == []
    taken = ada("ingest", "--found", "--yes", "--mine", "CLAUDE.md", "--json")
    assert taken.status == 0, taken.err
    counts = taken.json["taken"]
    assert (counts["files"], counts["unread"], counts["imports"], counts["problems"]) == (10, 0, 2, [])
    assert counts["crystals"] >= 11
    again = ada("ingest", "--found", "--yes", "--mine", "CLAUDE.md", "--json").json["taken"]
    assert (again["crystals"], again["turns"]) == (0, 0)
    assert ada("dream").status == 0
    assert "never on Fridays" in (ada.project / "MEMORY.md").read_text()
    why = ada("why", "never on Fridays")
    assert "CLAUDE.md:4" in why.out
    strange = ada("search", "what is the linter called", "--json").json["hits"][0]
    assert (strange["text"], strange["trust"]) == ("The linter is called ruff here", "web")
    for text in ("alpacas", "ostriches", "llamas", "bees"):
        assert text not in ada("search", text).out
    assert ada.files() == before
    assert ada("doctor").status == 0


def test_agents_can_be_chosen_and_words_that_cannot_be_meant_are_refused(ada: Person) -> None:
    assert ada("init", "--no-daemon", ada.project).status == 0
    chosen = ada("ingest", "--found", "gemini", "--json").json
    assert [Path(one["path"]).name for one in chosen["found"]] == ["GEMINI.md"]
    assert chosen["taken"] is None
    for words in (
        ("ingest", "--found", "nobody"),
        ("ingest", "--found", "--mine", "README.md"),
        ("ingest", "--yes", "x"),
    ):
        assert ada(*words).status == 2, words
    assert ada("ingest", "--found", "--hook").status == 1  # with 2 a hook would stop what the agent does
    (ada.project / "GEMINI.md").unlink()
    assert ada("ingest", "--found", "gemini").status == 3
