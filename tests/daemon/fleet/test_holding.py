"""What a process acknowledges is in a generation; whoever is asked has it done by who holds the workspace."""

import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daemon.workspace.searching import embed_waiting
from daemon.workspace.stores import utc_now
from state.crystals.crystal import Crystal, Origin
from state.errors import NotKeptError
from state.fleet import Place
from state.stores.generations.objects import FolderObjects
from tests.daemon.fleet.running import Fleet, Here, another_holder
from tests.support.in_memory import BagOfWords
from tests.support.serving import until

WRITES: dict[str, dict[str, Any]] = {
    "working_memory_note": {"note": "Ada prefers tea", "importance": 0.9},
    "feel": {"event": "reward", "because": "it works"},
    "working_memory_add": {"session_id": "s1", "content": "a word of the session", "priority": "high"},
}


@pytest.mark.parametrize("operation", WRITES)
def test_what_is_acknowledged_is_in_a_generation(fleet: Fleet, door: Here, operation: str) -> None:
    place = fleet.place()
    door.run(place, operation, **WRITES[operation])
    assert fleet.row(place)["generation"] == 1
    door.run(place, "mood")
    assert fleet.row(place)["generation"] == 1


def test_a_note_is_found_at_once_and_once_wherever_one_asks(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    assert door.search(token, "one", "tea") == []
    door.note(token, "one", "Ada prefers tea over coffee")
    with fleet.here() as other:
        for one in (door, other):
            assert one.search(token, "one", "tea coffee") == ["Ada prefers tea over coffee"]
            assert one.bootstrap(token, "one").count("Ada prefers tea") == 1
        assert [len(one.process.desk.all()) for one in (door, other)] == [1, 0]
        other.note(token, "one", "The port is 8443")
        assert "The port is 8443" in door.search(token, "one", "port 8443")
        # Whoever is asked, it is done where the workspace is held.
        assert other.do(token, place, "session_open", session_id="s1").status == 200
        assert other.do(token, place, "dream_now").json["outcome"] is not None
        door.give_back()
        assert "Ada prefers tea" in other.bootstrap(token, "one")
        assert [len(one.process.desk.all()) for one in (door, other)] == [0, 1]
    assert sorted(fleet.crystals(place)) == ["Ada prefers tea over coffee", "The port is 8443"]


@pytest.mark.full
def test_a_large_workspace_is_searched_by_meaning_at_the_first_call_after_a_move(fleet: Fleet) -> None:
    token, place = fleet.one()
    with fleet.here(embedder=BagOfWords()) as first:
        with first.process.desk.holding(place.id) as held, held.exclusive() as store:
            store.crystals.learn(Crystal(f"House {n} was repaired", Origin.SCRATCH, utc_now()) for n in range(2_500))
            assert embed_waiting(store) == 2_500
        first.give_back()
    asked = BagOfWords()
    with fleet.here(embedder=asked) as second:
        answer = second.do(token, place, "memory_search", query="House 1234 was repaired")
        assert answer.json["arms"] == ["lexical", "dense"]
        assert "House 1234 was repaired" in [hit["text"] for hit in answer.json["hits"]]
    assert len(asked.texts) < 2  # at most the question is embedded


def test_nothing_of_a_workspace_stays_where_it_was_held(fleet: Fleet, door: Here) -> None:
    token, _ = fleet.one()
    door.note(token, "one", "something to remember")
    assert door.search(token, "one", "something remember")
    [here] = fleet.folder.glob("process-*/workspaces")
    assert [*here.iterdir()]
    door.give_back()
    assert [*here.iterdir()] == []
    assert door.search(token, "one", "something remember")
    with fleet.here() as other:
        assert other.ask(token, "DELETE", "/v1/workspaces/one").json == {"name": "one"}
    assert door.ask(token, "GET", "/v1/workspaces/one/memory_bootstrap").status == 404
    until(lambda: not [*here.iterdir()])


def test_a_bootstrap_leaves_its_receipt_with_the_workspace(fleet: Fleet, door: Here) -> None:
    token, _ = fleet.one()
    door.note(token, "one", "Ada prefers tea")
    door.bootstrap(token, "one")
    door.give_back()  # nothing but receipts is new from here on
    for query in ("agent=claude-code&receipt=HTTP", "receipt=none"):
        assert door.ask(token, "GET", f"/v1/workspaces/one/memory_bootstrap?{query}").status == 200
    door.give_back()
    last = door.ask(token, "GET", "/v1/workspaces/one/dream_status").json["last_bootstrap"]
    assert (last["agent"], last["how"]) == ("claude-code", "HTTP")


def test_many_who_write_at_once_share_generations_and_each_note_is_taken_once(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    notes, stop = [f"the note of number {number}" for number in range(30)], threading.Event()
    ready = threading.Barrier(8)

    def write(number: int) -> None:
        ready.wait()
        while not stop.is_set():
            assert door.do(token, place, "session_open", session_id="s1").status == 200

    with ThreadPoolExecutor(8) as threads:
        tasks = [threads.submit(write, number) for number in range(8)]
        for note in notes:
            fleet.note(place, note)
        until(lambda: not fleet.waiting(place))
        stop.set()
        assert not [task.result() for task in tasks if task.result()]
    # Whoever dies now leaves what its last generation holds, and the rows that it did not take.
    assert sorted(fleet.crystals(place)) == sorted(notes)
    [held] = door.process.desk.all()
    assert held.callers == 0


def test_a_row_that_comes_while_a_generation_is_made_is_not_in_it(
    fleet: Fleet, door: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    from state.stores.generations import generations

    place, taken, absorbing = fleet.place(), threading.Event(), list[threading.Thread]()
    door.run(place, "mood")
    read = generations._read

    def look() -> None:
        door.run(place, "mood")
        taken.set()

    def late(*arguments: Any) -> Any:
        if not absorbing:
            fleet.note(place, "it came while the generation was made")
            absorbing.append(threading.Thread(target=look))
            absorbing[0].start()
            assert not taken.wait(0.5)
        return read(*arguments)

    monkeypatch.setattr(generations, "_read", late)
    door.run(place, "working_memory_note", note="the first", importance=0.8)
    absorbing[0].join()
    assert (fleet.waiting(place), fleet.crystals(place)) == (1, ["the first"])
    door.run(place, "working_memory_note", note="the last", importance=0.8)
    assert fleet.waiting(place) == 0
    assert sorted(fleet.crystals(place)) == ["it came while the generation was made", "the first", "the last"]


def test_a_row_that_nobody_can_read_holds_up_no_other(fleet: Fleet, door: Here) -> None:
    place, bodies = fleet.place(), [
        "[]", "null", "7", "{}", "not json", '{"text": 5, "importance": 1}', '{"text": "a", "importance": null}',
        '{"text": "a", "importance": 7}', '{"text": "", "importance": 0.5}',
        '{"text": "a", "at": "yesterday", "importance": 0.5}',
        '{"text": "a", "importance": 0.5, "at": "0001-01-01T00:00:00+23:00"}',
    ]  # fmt: skip
    poison = [fleet.put(place, body=body) for body in bodies]
    fleet.note(place, "the note behind it")
    door.run(place, "working_memory_note", note="the last", importance=0.8)
    assert sorted(fleet.crystals(place)) == ["the last", "the note behind it"]
    assert fleet.waiting(place) == 0
    rows = fleet.database.rows("SELECT body FROM inbox WHERE id = ANY(%(ids)s) ORDER BY id", {"ids": poison})
    assert [row["body"] for row in rows] == bodies


def test_who_was_displaced_commits_nothing(fleet: Fleet, door: Here) -> None:
    place = fleet.place()
    door.run(place, "working_memory_note", note="before", importance=0.8)
    folder = door.process.desk._folder / place.handle
    assert folder.exists()
    with another_holder(fleet, place):
        for operation, fields in (("working_memory_note", {"note": "too late", "importance": 0.8}), ("mood", {})):
            with pytest.raises(NotKeptError):
                door.run(place, operation, **fields)
        assert fleet.crystals(place) == ["before"]
        assert not folder.exists()


# ------------------------------------------------------------------- another process that holds it


class Listener:
    """A process that is none: it answers each request with what it was made with."""

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[bytes] = []
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                got = b""
                while b"\r\n\r\n" not in got or not _whole(got):
                    got += connection.recv(65_536)
                self.requests.append(got)
                connection.sendall(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])

    def close(self) -> None:
        self._socket.close()


def _whole(got: bytes) -> bool:
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return length is None or len(body) >= int(length.group(1))


def answered(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)


LEVELS = b'{"dopamine": 0.1, "cortisol": 0.2, "oxytocin": 0.3, "at": "2026-01-01T00:00:00Z"}'
MOOD = b'{"now": %s, "mood": "calm", "baselines": %s, "curve": [], "events": [], "more": 0}' % (LEVELS, LEVELS)
DONE = answered(200, b'{"notice": "see /home/operator/fleet/ws-1/x"}\n{"reply": ' + MOOD + b"}\n")
NOT_KEPT = answered(503, b'{"error": "another one has it", "code": "NOT_KEPT", "details": {}}')
STRANGER = answered(401, b'{"error": "who are you", "code": "UNAUTHORIZED", "details": {}}')
CUT_OFF = b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n"
BUSY = answered(409, b'{"error": "/srv/own/ws-1/x: a dream is under way; wait", "code": "BUSY", "details": {}}')


@pytest.mark.parametrize(
    ("answers", "status", "said", "requests"),
    [
        ((NOT_KEPT, STRANGER, DONE), 200, "calm", 3),
        ((CUT_OFF,), 503, "UNKNOWN_OUTCOME", 1),  # what may have been done is not sent again
        ((BUSY,), 409, "a dream is under way", 1),
    ],
)
def test_what_the_holder_answers(
    fleet: Fleet, door: Here, answers: tuple[bytes, ...], status: int, said: str, requests: int
) -> None:
    token, place = fleet.one()
    listener = Listener(*answers)
    with another_holder(fleet, place, listener.address):
        answer = door.do(token, place, "feel", event="error")
    listener.close()
    assert answer.status == status
    assert said in str(answer.json)
    assert "/srv" not in str(answer.json)
    assert len(listener.requests) == requests
    assert f"Authorization: Bearer {token}".encode() in listener.requests[0]


def test_who_holds_it_and_cannot_be_reached_is_waited_for(
    fleet: Fleet, door: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, place = fleet.one()
    monkeypatch.setattr("daemon.fleet.access.PATIENCE_SECONDS", 1.0)
    with another_holder(fleet, place):
        answer = door.do(token, place, "feel", event="error")
        assert (answer.status, answer.json["error"]) == (503, "the service cannot do this now; try again")
        assert door.note(token, "one", "meanwhile").status == 200
        # One that was passed on is passed on no further, and who sends the header learns nothing by it.
        sent = door.ask(token, "GET", "/v1/workspaces/one/mood", headers={"Dreamd-Forwarded": "1"})
        assert (sent.code, sent.json["error"]) == ("NOT_KEPT", "this is done elsewhere; try again")
    assert door.do(token, place, "feel", event="error").status == 200  # it is dead
    assert "meanwhile" in fleet.crystals(place)


def test_a_store_that_is_away_is_told_without_the_operators_words(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    assert door.do(token, place, "session_open", session_id="s1").status == 200
    (fleet.folder / "objects").rename(fleet.folder / "away")
    assert door.note(token, "one", "still taken").status == 200
    assert "still taken" in door.bootstrap(token, "one")  # what is at hand is read
    answer = door.do(token, place, "session_open", session_id="s1")
    assert answer.status == 503
    assert answer.code in ("UNKNOWN_OUTCOME", "UNREACHABLE")  # the second: a probe came first
    door.process.desk.find(place.id).lost = True  # type: ignore[union-attr]
    answer = door.ask(token, "GET", "/v1/workspaces/one/memory_bootstrap")
    assert (answer.status, answer.json["error"]) == (503, "the service cannot do this now; try again")
    (fleet.folder / "away").rename(fleet.folder / "objects")
    until(lambda: not door.process.objects.problem)
    assert "still taken" in door.bootstrap(token, "one")


class Slow(FolderObjects):
    """A store whose writes wait until `go_on` is set."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def put(self, key: str, content: bytes) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        super().put(key, content)

    def hold_up(self, door: Here, place: Place) -> None:
        """From now on what is committed of this workspace."""
        door.process.desk.find(place.id)._generations._objects = self  # type: ignore[union-attr]


@pytest.mark.full
def test_a_store_that_hangs_keeps_no_folder_of_what_was_lost(fleet: Fleet) -> None:
    place, lost, slow = fleet.place(), fleet.place(), Slow(fleet.folder / "objects")
    with fleet.here(idle_seconds=1) as door:
        door.run(place, "mood")
        slow.hold_up(door, place)
        fleet.note(place, "it is taken in, and committed when nobody asks any more")
        door.run(place, "mood")
        with door.process.desk.holding(lost.id):
            assert slow.begun.wait(60)
            folder = door.process.desk._folder / lost.handle
            assert folder.exists()
        with another_holder(fleet, lost):
            until(lambda: not folder.exists(), seconds=30)
        slow.go_on.set()


def test_a_search_does_not_wait_for_an_upload(fleet: Fleet, door: Here) -> None:
    place, slow = fleet.place(), Slow(fleet.folder / "objects")
    door.run(place, "working_memory_note", note="Ada prefers tea", importance=0.9)
    slow.hold_up(door, place)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(door.run, place, "working_memory_note", note="and cake", importance=0.9)
        assert slow.begun.wait(60)
        fleet.note(place, "and honey")
        assert "honey" in str(door.run(place, "memory_search", query="honey"))
        assert not writing.done()
        slow.go_on.set()
        writing.result(60)
    door.run(place, "session_open", session_id="s1")
    assert set(fleet.crystals(place)) == {"Ada prefers tea", "and cake", "and honey"}
