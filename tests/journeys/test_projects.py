"""Which project an agent is in: the text of one reaches no other, a folder that is none gets nothing."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from state.stores.disk.places import all_places
from tests.daemon.mcp.agents import Raw
from tests.journeys.test_sandboxes import is_possible
from tests.support import forked
from tests.support.developer import Developer, at_home, tree
from tests.support.repository import git

HARBOUR, ORCHARD, DIARY = "The harbour gate opens at nine", "The orchard has forty bees", "The diary is under the bed"
READ_ONLY = "tests.journeys.test_sandboxes:read_only"


@pytest.fixture
def ada() -> Iterator[Developer]:
    with at_home() as developer:
        yield developer


@pytest.fixture(scope="module")
def two_known() -> Iterator[Developer]:
    """Somebody with two projects, for tests that only look."""
    with at_home() as developer:
        (developer.remembering("one", HARBOUR) / "deep/er").mkdir(parents=True)
        developer.remembering("two", ORCHARD)
        yield developer


@pytest.fixture
def project(ada: Developer) -> Path:
    return ada.remembering("clients/harbour", HARBOUR)


def refused(ada: Developer, folder: Path, *said: str) -> None:
    """Assert that a note in this folder is refused in words, and is nowhere."""
    ended = ada.dreamd(folder, "note", "Nobody keeps this")
    assert (ended.status in (1, 2), ended.err.count("\n")) == (True, 1), ended
    assert [word for word in ("dreamd: ", *said) if word not in ended.err] == []
    assert ada.holders("Nobody keeps this") == set()


# ------------------------------------------------------------------- several projects, and folders that are none


@pytest.mark.full
def test_what_is_said_in_one_project_reaches_no_other_and_no_folder_that_is_none(ada: Developer) -> None:
    one, two = ada.repository("harbour"), ada.repository("orchard")
    neither = ada.home / "Documents"
    neither.mkdir()
    places = ((one, HARBOUR), (two, ORCHARD), (neither, DIARY))
    for folder, text in places:
        transcript = ada.session(folder, f"Remember: {text}", name=folder.name)
        own = {str(transcript.relative_to(ada.home))}
        assert len(ada.holders(text) - own) == (folder != neither), ada.holders(text)
    (harbour,), (orchard,) = (ada.holders(text) & ada.memories() for text in (HARBOUR, ORCHARD))
    assert harbour != orchard
    assert ada.memories() == {harbour, orchard}
    for folder, text in places[:2]:  # without a model a dream takes no lines of a conversation
        ada.note(folder, text)
    links = {path.name: path.parent.parent.name for path in ada.data.glob("*/transcripts/*")}
    assert links == {"harbour.jsonl": harbour, "orchard.jsonl": orchard}
    for folder, _ in places:
        told = ada.start(folder)
        expected = [text for place, text in places[:2] if place == folder]
        assert [text for _, text in places if text in told] == expected
    assert ada.start(neither) == ""
    refused(ada, neither, str(neither), "dreamd init")
    assert list(neither.iterdir()) == []
    ada.do(ada.home, "note", "--global", "Ada prefers tea")
    ada.do(ada.home, "dream", "--global")
    assert [text for _, text in places if text in ada.start(neither)] == []
    assert list(neither.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "variable", "folder", "meant"),
    [
        ("one", "two", "two", "one"),
        ("one/deep/er", "two", "home", "one"),
        (None, "two", "one", "two"),
        (None, None, "two", "two"),
        ("home", "one", "one", None),
        ("one/gone", None, "home", None),
        (7, "two", "one", "two"),
        ("relative", None, "home", None),
        ("", "two", "home", "two"),
    ],
)
def test_the_project_is_that_of_the_message_else_of_the_variable_else_of_the_folder(
    two_known: Developer, said: Any, variable: str | None, folder: str, meant: str | None
) -> None:
    ada, one, two = two_known, two_known.home / "one", two_known.home / "two"
    places = {"one": one, "two": two, "home": ada.home, "one/deep/er": one / "deep/er", "one/gone": one / "gone"}
    variables = {} if variable is None else {"CLAUDE_PROJECT_DIR": str(places[variable])}
    given = said if said is None or said not in places else places[said]
    told = ada.start(given, at=places[folder], **variables)
    found = [name for name, text in (("one", HARBOUR), ("two", ORCHARD)) if text in told]
    # A folder that was removed may mean the project it was in; it means no other one.
    assert found == [meant] if meant else set(found) <= ({"one"} if said == "one/gone" else set())


@pytest.mark.full
def test_a_memory_begins_when_there_is_something_to_remember_and_says_so_once(ada: Developer) -> None:
    project = ada.repository("harbour")
    assert ada.start(project) == ""
    for words in (("search", "gate"), ("bootstrap",), ("status",)):
        ada.dreamd(project, *words)
    silent = ada.home / "silent.jsonl"  # a session that ended without a word has none
    ended = ada.hook("SessionEnd", project, transcript_path=str(silent))
    assert (ended.status, ended.out) == (0, "")
    ada.settle()
    assert (ada.memories(), (project / ".git/dreamd").exists()) == (set(), False)
    ada.session(project, f"Remember: {HARBOUR}")
    assert len(ada.memories()) == 1
    ada.note(project, HARBOUR)  # without a model a dream takes no lines of a conversation
    first, second = ada.start(project), ada.start(project)
    said = first.splitlines()[0]
    assert "dreamd" in said
    assert said not in second
    assert first.replace(f"{said}\n", "", 1).strip() == second.strip()


@pytest.mark.parametrize("new", ["ask", "never"])
def test_no_memory_is_made_unasked_where_its_owner_wants_none(ada: Developer, new: str) -> None:
    project = ada.repository("harbour")
    ada.dreamd(project, "note", HARBOUR, DREAMD_CONNECT__NEW=new)
    config = ada.home / ".config/dreamd/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"connect:\n  new: {new}\n")
    refused(ada, project, "dreamd init")
    ada.session(project, HARBOUR)
    assert (ada.memories(), (project / ".git/dreamd").exists()) == (set(), False)
    told = ada.start(project)
    assert HARBOUR not in told
    assert ("dreamd init" in told) is (new == "ask")
    ada.do(project, "init")
    ada.note(project, HARBOUR)
    assert ada.knows(project, HARBOUR)


@pytest.mark.full
def test_an_ignored_project_stays_out_until_it_is_initialised(ada: Developer, project: Path) -> None:
    other, third = ada.repository("clients/bank"), ada.remembering("own", ORCHARD)
    git(project, "worktree", "add", "--quiet", "--detach", ada.home / "tree")
    (project / "src").mkdir()
    ada.do(ada.home, "ignore", project)
    ada.do(ada.home, "ignore", str(ada.home / "cli*/b*"))
    listed = ada.do(ada.home, "ignore").out
    assert (str(project) in listed, str(ada.home / "cli*/b*") in listed) == (True, True)
    before = tree(ada.data)
    for folder in (project, project / "src", ada.home / "tree", other):
        ada.session(folder, DIARY)
        assert ada.start(folder) == ""
        refused(ada, folder, "ignore", "dreamd init")
    assert (tree(ada.data), git(project, "status", "--porcelain", "--ignored")) == (before, "")
    assert not (other / ".git/dreamd").exists()
    assert ada.knows(third, ORCHARD)
    ada.do(project, "init")
    assert ada.knows(project, HARBOUR)  # what it had is not lost
    ada.note(project, "After the pause")
    ada.do(ada.home, "init", other)
    ada.note(other, "The bank opens at ten")
    assert ada.knows(other, "The bank opens at ten")
    assert str(project) not in ada.do(ada.home, "ignore").out.splitlines()
    # Another one that the glob means is ignored still.
    refused(ada, ada.repository("clients/brewery"), "dreamd init")


@pytest.mark.parametrize("word", ["clients", "clients/h*"])
def test_who_ignores_a_folder_above_has_no_daemon_and_no_agent_in_it(
    ada: Developer, project: Path, word: str
) -> None:
    data = ada.home / ".local/share/dreamd"
    assert all(place.kept for place in all_places(data))
    ada.do(ada.home, "ignore", str(ada.home / word))
    assert not all(place.kept for place in all_places(data))
    assert "ignore" in ada.dreamd(ada.home, "bootstrap", project).err
    assert "ignore" in ada.dreamd(ada.home, "note", "-w", project, DIARY).err
    assert ada.start(ada.home, DREAMD_WORKSPACE=str(project)) == ""
    assert HARBOUR in ada.do(ada.home, "search", "-w", project, "harbour").out  # which its owner asks by name


# ------------------------------------------------------------------- sandboxes


@pytest.mark.full
@pytest.mark.skipif(not is_possible(), reason="nobody may mount here")
@pytest.mark.parametrize("part", [".local", ""], ids=["data", "home"])
def test_an_agent_that_may_write_nothing_there_reads_and_loses_nothing(ada: Developer, part: str) -> None:
    known, new = ada.remembering("harbour", HARBOUR), ada.repository("orchard")
    before = (READ_ONLY, [str(ada.home / part)])
    for project in (known, new):
        told = ada.start(project, before=before)
        assert (HARBOUR in told) is (project == known)
        transcript = ada.home / f"{project.name}.md"
        transcript.write_text(f"Ada: {DIARY}\n")
        for event in ("Stop", "PreCompact", "SessionEnd"):
            ended = ada.hook(event, project, transcript_path=str(transcript), before=before)
            assert (ended.status, ended.out) == (0, ""), ended
        ada.settle()
        noted = ada.dreamd(project, "note", ORCHARD, before=before)
        assert noted.status == 0 or (noted.status == 1 and "read-only" in noted.err), noted
        if noted.status == 0:
            assert ada.knows(project, ORCHARD)
        assert git(project, "status", "--porcelain", "--ignored") == ""
        assert ada.dreamd(project, "search", "gate", before=before).status == (0 if project == known else 2)
    ada.note(new, ORCHARD)  # outside, nothing half made is in the way
    assert ada.knows(new, ORCHARD)
    assert ada.knows(known, HARBOUR)
    assert len(ada.memories()) == 2


# ------------------------------------------------------------------- the server


@contextmanager
def server(
    ada: Developer, folder: Path, *roots: Path, **variables: str
) -> Iterator[Callable[[str, Mapping[str, Any]], str]]:
    """A server that an agent starts in this folder; the agent announces these roots, and is asked for them."""
    with tempfile.TemporaryFile() as errors:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        process: forked.Forked[bytes] = forked.Forked(["mcp"], cwd=folder, env=ada.environment(**variables), **pipes)
        with Raw(process, errors) as raw:
            number = iter(range(1, 100))

            def ask(method: str, **params: Any) -> Any:
                asked = next(number)
                raw.send(json.dumps({"jsonrpc": "2.0", "id": asked, "method": method, "params": params}).encode())
                while True:
                    message = raw.line()
                    if message.get("method") == "roots/list":
                        listed = [{"uri": root.as_uri(), "name": root.name} for root in roots]
                        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": listed}}
                        raw.send(json.dumps(answer).encode())
                    elif message.get("id") == asked:
                        return message["result"]

            able = {"roots": {"listChanged": False}} if roots else {}
            client = {"name": "a test", "version": "1"}
            ask("initialize", protocolVersion="2025-06-18", capabilities=able, clientInfo=client)
            raw.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

            def call(tool: str, arguments: Mapping[str, Any]) -> str:
                result = ask("tools/call", name=tool, arguments=arguments)
                return "\n".join(part["text"] for part in result["content"])

            yield call


@pytest.mark.parametrize(
    ("folder", "variable", "root", "meant"),
    [
        ("orchard", "", "", ORCHARD),
        ("orchard", "harbour", "", HARBOUR),
        ("", "", "harbour", HARBOUR),
        ("orchard", "", "harbour", ORCHARD),
        ("", "", "", ""),
        ("", "", "none", ""),
    ],
)
def test_a_server_finds_its_project_by_variable_folder_or_roots(
    ada: Developer, folder: str, variable: str, root: str, meant: str
) -> None:
    for name, text in (("harbour", HARBOUR), ("orchard", ORCHARD)):
        ada.remembering(name, text)
        (ada.home / name / "src").mkdir()
    (ada.home / "none").mkdir()
    variables = {"CLAUDE_PROJECT_DIR": str(ada.home / variable)} if variable else {}
    roots = [ada.home / root / "src" if root == "harbour" else ada.home / root] if root else []
    with server(ada, ada.home / folder, *roots, **variables) as call:
        told = call("memory_bootstrap", {})
        said = call("working_memory_note", {"note": DIARY})
    assert [text for text in (HARBOUR, ORCHARD) if text in told] == ([meant] if meant else [])
    kept = ada.holders(DIARY)
    if meant:
        assert kept == ada.holders(meant)
    else:
        assert kept == set()
        assert "no repository and no workspace" in said
        assert len(ada.memories()) == 2


def test_a_server_makes_the_memory_at_the_first_note_and_says_where_a_project_is_ignored(ada: Developer) -> None:
    project, other = ada.repository("harbour"), ada.repository("orchard")
    ada.do(ada.home, "ignore", other)
    for folder, text in ((project, HARBOUR), (other, ORCHARD)):
        with server(ada, folder) as call:
            call("memory_search", {"query": "gate"})
            assert len(ada.memories()) == (folder == other)
            said = call("working_memory_note", {"note": text})
            assert ("ignore" in said) is (folder == other)
    assert ada.knows(project, HARBOUR)
    assert ada.holders(ORCHARD) == set()
