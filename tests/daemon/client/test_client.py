"""A program's client: typed replies and errors at both doors, safe retries, and no weight at import."""

import socket
import threading
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.api.operations.operation import FieldsError
from daemon.api.operations.signals import current_mood, gaps
from daemon.client import Client, LostError, NoDaemonError
from daemon.config.registry import name_of
from daemon.dream.run import Mode
from daemon.workspace.adoption import init_workspace
from state.errors import DreamdError, NothingToDoError, UnknownWorkspaceError, UsageError
from state.signals.hormones import Feeling
from tests.daemon.http.running import TOKEN, Running

SWIFT = "the swift nests under the roof"


@pytest.fixture(autouse=True)
def at_the_socket(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_SOCKET", str(served.path))


@pytest.fixture(params=["socket", "address", "name"])
def client(request: pytest.FixtureRequest, served: Running, tmp_path: Path) -> Client:
    """Of a new workspace, at each door."""
    name = served.house.make(tmp_path / "Ada's work")
    if request.param == "socket":
        return Client(tmp_path / "Ada's work")
    workspace = name if request.param == "name" else tmp_path / "Ada's work"
    return Client(workspace, address=f"http://127.0.0.1:{served.port}", token=TOKEN)


def test_a_program_notes_finds_and_reads_its_memory(client: Client) -> None:
    with pytest.raises(NothingToDoError):
        client.dream()
    taken = client.note(SWIFT, importance=0.8)
    assert (taken.importance, taken.crystal) == (0.8, "pending")
    assert taken.at <= datetime.now(UTC)
    assert [hit.text for hit in client.search("where does the swift nest", limit=1).hits] == [SWIFT]
    assert "swift" in client.bootstrap(context_window=200_000).text
    assert client.status().pending.notes == 1
    assert client.feel(Feeling.REWARD, "a test").now.dopamine > 0
    assert client.dream(mode=Mode.AUTO).outcome is not None
    assert "swift" in client.memory().text
    assert client.forget(SWIFT, dry_run=True).traces
    client.forget(SWIFT, confirm=True)
    assert client.search("swift").hits == ()


def test_only_what_an_agent_does_not_find_is_an_open_question(client: Client) -> None:
    client.search("lattice quantum chromodynamics")
    assert client.call(gaps).gaps == ()
    secret = "ghp_" + "a1B2" * 9
    for query in ("  ", f"zyxwv {secret}"):
        client.search(query, agent="codex")
    (gap,) = client.call(gaps).gaps
    assert "zyxwv" in gap.question
    assert secret not in gap.question


def test_a_session_is_opened_filled_and_closed(client: Client) -> None:
    with client.session("chat 1", "bounded", max_items=5) as session:
        memory = session.add("the ledger is SQLite", importance=0.9, tags=["storage"]).memory
        assert memory.tags == ("storage",)
        assert "ledger" in session.context(max_tokens=500).context
        assert [one.id for one in session.remember("ledger").memories] == [memory.id]
        assert (session.capacity().items, session.capacity().max_items) == (1, 5)
        assert session.promote(memory.id).content == "the ledger is SQLite"
        assert session.recall("nothing").memories == ()
    assert [one.session_id for one in client.sessions().sessions] == ["chat 1"]
    assert client.session_at("chat 1").id == "chat 1"


def test_what_is_refused_is_raised_as_what_it_is(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = f"http://127.0.0.1:{served.port}"
    with pytest.raises(UsageError):
        Client(tmp_path)  # no workspace
    for wrong in ({"address": "localhost:7349"}, {"token": "t"}, {"address": "http://x", "workspace": ""}):
        with pytest.raises(UsageError):
            Client(**{"workspace": tmp_path, **wrong})  # type: ignore[arg-type]
    stranger = Client("nobody-000000", address=door, token=TOKEN)
    assert TOKEN not in repr(vars(stranger))
    with pytest.raises(UnknownWorkspaceError):
        stranger.status()
    with pytest.raises(FieldsError, match="limit: ") as refused:
        stranger.search("x", limit=0)
    assert refused.value.http_status == 422
    with pytest.raises(DreamdError, match="token") as refused_at_door:
        Client("x", address=door, token="another").status()
    assert refused_at_door.value.code == "UNAUTHORIZED"
    root = init_workspace(tmp_path / "new").root  # the daemon keeps it from the first call on
    (root / "deep").mkdir()
    assert Client(root / "deep").status().workspace == str(root)
    assert name_of(root) in served.house.roots
    monkeypatch.setenv("DREAMD_SOCKET", str(tmp_path / "no.sock"))
    with pytest.raises(NoDaemonError, match="'dreamd serve' starts one"):
        Client(root).status()


def test_a_read_is_asked_again_and_a_note_is_not(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A door that closes on each first visitor, in front of the real one."""
    served.house.make(tmp_path / "w")
    for tries in (2, 1):
        with closing(_Door(tmp_path / f"door{tries}", served.path)) as door:
            monkeypatch.setenv("DREAMD_SOCKET", str(door.path))
            client = Client(tmp_path / "w")
            if tries == 2:
                client.call(current_mood)
            else:
                with pytest.raises(LostError):
                    client.note("x")
            assert door.visitors == tries


class _Door:
    """Closes on the first visitor and lets the others through, one at a time."""

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
                if self.visitors > 1:
                    with socket.socket(socket.AF_UNIX) as real:
                        real.connect(str(self._behind))
                        real.sendall(said)
                        while block := real.recv(65_536):
                            visitor.sendall(block)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
