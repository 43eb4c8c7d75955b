"""A program's client: the same replies and errors at every door, safe retries, and no note lost without a daemon."""

import dataclasses
import socket
import threading
import tomllib
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from dreamd_client import Client, DreamdError, LostError, NoDaemonError, replies

from daemon.api.operations.table import OPERATIONS
from tests.daemon.http.running import TOKEN, Running
from tests.support import forked
from tests.support.running import ROOT

SWIFT = "the swift nests under the roof"


@pytest.fixture(autouse=True)
def at_the_socket(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_SOCKET", str(served.path))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that runs `dreamd`."""
    words, variables = forked.stand_in()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return words


@pytest.fixture
def client(
    request: pytest.FixtureRequest,
    served: Running,
    tmp_path: Path,
    program: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Client:
    """Of a new workspace, at a door; tests/doors asks every operation."""
    name = served.house.make(tmp_path / "Ada's work")
    (tmp_path / "Ada's work" / "deep").mkdir()
    if request.param == "address":
        return Client(name, address=f"http://127.0.0.1:{served.port}", token=TOKEN)
    if request.param == "program":
        monkeypatch.setenv("DREAMD_SOCKET", str(tmp_path / "no.sock"))
        monkeypatch.setenv("DREAMD_WORKSPACE", str(tmp_path / "of another program"))
    return Client(tmp_path / "Ada's work" / "deep", program=program if request.param == "program" else "/no/dreamd")


def code_of(refused: "pytest.ExceptionInfo[DreamdError]") -> str:
    return refused.value.code


@pytest.mark.parametrize("client", ["socket"], indirect=True)
def test_a_program_notes_finds_and_reads_its_memory(client: Client) -> None:
    with pytest.raises(DreamdError) as nothing:
        client.dream()
    assert code_of(nothing) == "NOTHING_TO_DO"
    taken = client.note(f"-{SWIFT} 🍵", importance=0.8)
    assert (taken.importance, taken.text) == (0.8, f"-{SWIFT} 🍵")
    assert taken.at <= datetime.now(UTC)
    assert [hit.text for hit in client.search("where does the swift nest", limit=1).hits] == [taken.text]
    assert "swift" in client.bootstrap(context_window=200_000).text
    assert client.status().pending.notes == 1
    client.feel("reward", "a test")
    dreamt = client.dream().outcome
    assert dreamt is not None
    assert "swift" in dreamt.dream.after
    assert "swift" in client.memory().text
    assert client.status().last_dream is not None
    (line,) = client.why("swift")
    assert line.writing is not None
    assert line.writing.version == 1
    assert client.call("history", limit=1)["versions"][0]["number"] == 1
    assert client.forget(SWIFT, dry_run=True)["traces"]
    client.forget(SWIFT, confirm=True)
    assert client.search("swift").hits == ()


@pytest.mark.parametrize("client", ["address"], indirect=True)
def test_a_session_is_opened_filled_and_closed(client: Client) -> None:
    with client.session("chat 1", "bounded", max_items=5) as session:
        memory = session.add("the ledger is SQLite", importance=0.9, tags=["storage"]).memory
        assert memory.tags == ("storage",)
        assert "ledger" in session.context(max_tokens=500).context
        assert [one.id for one in session.remember("ledger").memories] == [memory.id]
        assert (session.capacity().items, session.capacity().max_items) == (1, 5)
        assert session.promote(memory.id).content == "the ledger is SQLite"
        assert session.recall("nothing").memories == ()
    assert [one.session_id for one in client.sessions()] == ["chat 1"]
    assert client.session_at("chat 1").id == "chat 1"


@pytest.mark.parametrize("client", ["address", "program"], indirect=True)
def test_steps_and_notices_arrive_while_it_works(client: Client) -> None:
    steps, notices = list[str](), list[str]()
    client._on_step, client._on_notice = lambda node, _: steps.append(node), notices.append
    client.note(SWIFT, replaces="no such line")
    client.dream()
    assert steps[-1] == "commit"
    assert any("no such line" in one for one in notices)


def test_wrong_arguments_are_named(served: Running, tmp_path: Path) -> None:
    door = f"http://127.0.0.1:{served.port}"
    for wrong in (
        {"workspace": tmp_path / "none"},
        {"address": "localhost:7349"},
        {"token": "t"},
        {"address": "http://x", "workspace": ""},
        {"address": "http://x", "workspace": tmp_path},
    ):
        given: dict[str, Any] = {"workspace": tmp_path, **wrong}
        with pytest.raises(DreamdError) as refused:
            Client(**given)
        assert code_of(refused) == "VALIDATION_ERROR"
    with pytest.raises(DreamdError) as refused:
        Client("nobody-000000", address=door, token=TOKEN).status()
    assert code_of(refused) == "UNKNOWN_WORKSPACE"
    with pytest.raises(DreamdError, match="token") as refused:
        Client("x", address=door, token="another").status()
    assert code_of(refused) == "UNAUTHORIZED"


def test_without_a_daemon_and_a_program_or_a_workspace_it_says_so(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: list[str]
) -> None:
    with pytest.raises(DreamdError, match="dreamd init") as refused:  # the program says it, beside a daemon too
        Client(tmp_path, program=program).note(SWIFT)
    assert code_of(refused) == "VALIDATION_ERROR"
    monkeypatch.setenv("DREAMD_SOCKET", str(tmp_path / "no.sock"))
    with pytest.raises(NoDaemonError, match="'dreamd serve' starts a daemon"):
        Client(tmp_path, program="/no/dreamd").note(SWIFT)
    with pytest.raises(DreamdError, match="does not answer as dreamd does"):
        Client(tmp_path, program=["/bin/echo", "good day"]).status()
    with pytest.raises(DreamdError, match="ended with 1"):
        Client(tmp_path, program="/bin/false").status()
    with pytest.raises(NoDaemonError):
        Client("x", address="http://127.0.0.1:1").note(SWIFT)


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        (replies.Note, "working_memory_note"),
        (replies.Found, "memory_search"),
        (replies.Bootstrap, "memory_bootstrap"),
        (replies.Memory, "memory_state"),
        (replies.Lines, "memory_why"),
        (replies.Dreamt, "dream_now"),
        (replies.Status, "dream_status"),
        (replies.Memorized, "memory_memorize"),
        (replies.Memories, "memory_remember"),
        (replies.Memories, "memory_recall"),
        (replies.Context, "memory_context"),
        (replies.LongTerm, "working_memory_promote"),
        (replies.Capacity, "memory_capacity"),
        (replies.SessionList, "session_list"),
    ],
)
def test_a_reply_has_fields_of_the_operations_own(kind: type, operation: str) -> None:
    assert unknown(kind, OPERATIONS[operation].reply) == []


def unknown(kind: Any, own: Any) -> list[str]:
    """The fields of a reply, and of what is in it, that the operation's value does not have."""
    if not (dataclasses.is_dataclass(kind) and dataclasses.is_dataclass(own)):
        pairs = zip(get_args(kind), get_args(own), strict=False)
        return [name for one, another in pairs for name in unknown(one, another)]
    ours, theirs = get_type_hints(kind), get_type_hints(own)
    missing = [f"{kind}.{name}" for name in ours if name not in theirs]
    return missing + [name for one in ours.keys() & theirs for name in unknown(ours[one], theirs[one])]


def test_it_is_of_the_products_version_and_under_its_licence() -> None:
    folder = ROOT / "daemon" / "client"
    of_client, of_product = (
        tomllib.loads((one / "pyproject.toml").read_text())["project"]["version"] for one in (folder, ROOT)
    )
    assert of_client == of_product
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_a_read_is_asked_again_and_a_note_is_not(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A door that closes on each second visitor, in front of the real one; the first finds the workspace."""
    served.house.make(tmp_path / "w")
    for tries in (2, 1):
        with closing(_Door(tmp_path / f"door{tries}", served.path)) as door:
            monkeypatch.setenv("DREAMD_SOCKET", str(door.path))
            client = Client(tmp_path / "w")
            if tries == 2:
                client.memory()
            else:
                with pytest.raises(LostError):
                    client.note("x")
            assert door.visitors == 1 + tries


class _Door:
    """Closes on the second visitor and lets the others through, one at a time."""

    def __init__(self, path: Path, behind: Path) -> None:
        self.path, self.visitors = path, 0
        self._behind = behind
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return
            self.visitors += 1
            with visitor, suppress(OSError):  # who has the reply goes
                said = b""
                while not said.endswith(b"}"):
                    said += visitor.recv(65_536)
                if self.visitors != 2:
                    with socket.socket(socket.AF_UNIX) as real:
                        real.connect(str(self._behind))
                        real.sendall(said)
                        while block := real.recv(65_536):
                            visitor.sendall(block)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
