"""Behind a balancer that sends nothing to an unready process, no call fails while processes are restarted in turn."""

import http.client
import itertools
import json
import select
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection

import pytest

from tests.fleet.machines import Fleet, Known, Machine
from tests.support.serving import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

_PROBE_SECONDS = 0.5
_AGENTS, _PAUSE_SECONDS = 6, 0.05
# Calls that somebody waits for: one for the inbox, one that reads, one that is committed.
_CALLS = (
    ("working_memory_note", {"note": "Ada prefers tea to coffee"}),
    ("memory_search", {"query": "what does Ada drink"}),
    ("working_memory_add", {"session_id": "s1", "content": "it was looked at", "priority": "low"}),
)


class Balancer:
    """A round-robin proxy of connections. It probes /readyz twice a second, and never tries another process."""

    def __init__(self, machines: list[Machine]) -> None:
        self._ready: dict[int, bool] = dict.fromkeys((one.port for one in machines), False)
        self._turn, self._closed = itertools.count(), threading.Event()
        serve = self._serve

        class Link(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Link)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._threads = [threading.Thread(target=one) for one in (self._probe, self._server.serve_forever)]

    @contextmanager
    def running(self) -> Iterator["Balancer"]:
        for thread in self._threads:
            thread.start()
        try:
            until(lambda: all(self._ready.values()))
            yield self
        finally:
            self._closed.set()
            self._server.shutdown()
            self._server.server_close()
            for thread in self._threads:
                thread.join()

    def is_ready(self, machine: Machine) -> bool:
        return self._ready[machine.port]

    def _probe(self) -> None:
        while not self._closed.wait(_PROBE_SECONDS):
            for port in self._ready:
                self._ready[port] = _is_ready(port)

    def _serve(self, client: socket.socket) -> None:
        ready = [port for port, is_ready in self._ready.items() if is_ready]
        if not ready:
            return
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", ready[next(self._turn) % len(ready)])) as server,
        ):
            other = {client: server, server: client}
            while not self._closed.is_set():
                for one in select.select([*other], [], [], 1.0)[0]:
                    if not (data := one.recv(65_536)):
                        return
                    other[one].sendall(data)


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


class Agent(threading.Thread):
    """Calls one after another, each over the connection of the last one while that is kept open."""

    def __init__(self, port: int, known: Known, answers: Counter[str], ending: threading.Event) -> None:
        super().__init__()
        self._port, self._known, self._answers, self._ending = port, known, answers, ending

    def run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        for operation, fields in itertools.cycle(_CALLS):
            if self._ending.wait(_PAUSE_SECONDS):
                break
            self._answers[self._ask(connection, operation, fields)] += 1
        connection.close()

    def _ask(self, connection: HTTPConnection, operation: str, fields: dict[str, str]) -> str:
        headers = {
            "Authorization": f"Bearer {self._known.token}",
            "Content-Type": "application/json",
            "Host": "localhost",
        }
        path = f"/v1/workspaces/{self._known.name}/{operation}"
        try:
            connection.request("POST", path, json.dumps(fields), headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return f"{operation}: {error!r}"
        return "answered" if answer.status == 200 else f"{operation}: {answer.status} {said[:300]!r}"


@contextmanager
def traffic(port: int, known: list[Known]) -> Iterator[Counter[str]]:
    """Agents at work while the context lasts; what they were answered."""
    answers, ending = Counter[str](), threading.Event()
    agents = [Agent(port, one, answers, ending) for one in itertools.islice(itertools.cycle(known), _AGENTS)]
    for agent in agents:
        agent.start()
    try:
        until(lambda: answers["answered"] > 60, lambda: answers)
        yield answers
    finally:
        ending.set()
        for agent in agents:
            agent.join()


def test_no_call_fails_while_processes_are_restarted_in_turn() -> None:
    with Fleet("folder", 2) as fleet:
        fleet.settle(4, 1)
        fleet.start()
        with (
            Balancer(fleet.machines).running() as balancer,
            traffic(balancer.port, fleet.known) as answers,
        ):
            for machine in fleet.machines * 2:
                ended = machine.end()
                assert ended.status == 0, machine.tail()
                assert ended.seconds < 10.5
                machine.start()
                until(partial(balancer.is_ready, machine), machine.tail)
    assert [*answers] == ["answered"], answers.most_common(6)
    assert answers["answered"] > 200
