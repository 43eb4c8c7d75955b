"""Traffic: agents in many threads, each asking whatever machine answers, again and again with the same key.

What an agent was told is done goes into the ledger; what it was told in no other way than these is a finding:
200; 503 or 429, and it asks again; a connection that is refused, cut or silent, and it asks again.
"""

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.fleet.ledger import Ledger
from tests.fleet.machines import Known, Machine
from tests.support.notes import marker

_TIMEOUT_SECONDS = 20.0
_PAUSE_SECONDS = 0.3
_PASSING = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a machine said; status 0: nothing, nobody knows whether it is done."""

    status: int
    body: bytes = b""

    @property
    def done(self) -> bool:
        return self.status == 200


class Client:
    """Asks machines, one after the other until one answers; keeps its connections. For one thread."""

    def __init__(self, machines: Sequence[Machine], rng: random.Random) -> None:
        self._machines = machines
        self._rng = rng
        self._open: dict[int, http.client.HTTPConnection] = {}

    def ask(self, known: Known, path: str, body: dict[str, Any] | None = None, key: str = "") -> Answer:
        """One question to one machine."""
        port = self._rng.choice(self._machines).port
        connection = self._open.setdefault(
            port, http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
        )
        headers = {"Authorization": f"Bearer {known.token}", "Content-Type": "application/json"}
        headers |= {"Idempotency-Key": key} if key else {}
        try:
            connection.request(
                "GET" if body is None else "POST",
                f"/v1/workspaces/{known.name}{path}",
                None if body is None else json.dumps(body),
                headers,
            )
            with connection.getresponse() as response:
                return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            self._open.pop(port).close()
            return Answer(0)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


@dataclass(slots=True)
class Agent:
    """One thread of agents: what it asks is drawn, and paced so that `per_second` are asked while all is well."""

    rng: random.Random
    client: Client
    ledger: Ledger
    workspaces: Sequence[Known]
    per_second: float
    until: float
    give_up: float

    def run(self) -> None:
        try:
            while time.monotonic() < self.until:
                self._act(self.rng.choice(self.workspaces))
                time.sleep(min(self.rng.expovariate(self.per_second), max(0.0, self.until - time.monotonic())))
        except Exception as error:  # noqa: BLE001 - a defect of the test is a finding too
            self.ledger.found(f"an agent ended: {error!r}")
        finally:
            self.client.close()

    def _act(self, known: Known) -> None:
        [what] = self.rng.choices(list(_ACTS), [often for often, _ in _ACTS.values()])
        _, act = _ACTS[what]
        act(self, what, known)

    def _read(self, what: str, known: Known) -> None:
        self._told(what, self.client.ask(known, f"/memory_{what}"))

    def _search(self, what: str, known: Known) -> None:
        self._told(what, self.client.ask(known, "/memory_search", {"query": self.rng.choice(("harbour", "x1"))}))

    def _restore(self, what: str, known: Known) -> None:
        answer = self.client.ask(known, "/restore", {"version": 1})
        if self._told(what, answer, frozenset({404, 409, 422})):
            self.ledger.wrote(what, known.id, json.loads(answer.body)["dream"]["id"])

    def _dream(self, what: str, known: Known) -> None:
        reason = {"reason": "session-end"} if what == "session_end" else {}
        answer = self.client.ask(known, "/dream_now", {"wait": what == "dream_waited"} | reason)
        self._told(what, answer, frozenset({404, 409}))

    def _note(self, what: str, known: Known) -> None:
        """A note, until it is acknowledged or time is up; now and then it is sent twice, and looked for."""
        text, key = self.ledger.text(known.id), str(UUID(int=self.rng.getrandbits(128)))
        body = {"note": text, "importance": round(self.rng.uniform(0.3, 1.0), 2)}
        while not self._told(what, self.client.ask(known, "/working_memory_note", body, key)):
            if time.monotonic() > self.give_up:
                return
            time.sleep(_PAUSE_SECONDS * self.rng.uniform(0.5, 1.5))
        self.ledger.wrote(what, known.id, text)
        chance = self.rng.random()
        if chance < 0.03:
            self._told("note_again", self.client.ask(known, "/working_memory_note", body, key))
        elif chance < 0.06:
            self._look_for(known, text)

    def _look_for(self, known: Known, text: str) -> None:
        answer = self.client.ask(known, "/memory_search", {"query": marker(text)})
        if self._told("search_for", answer) and marker(text) not in answer.body.decode():
            self.ledger.found(f"ws-{known.id}: a search does not find what was acknowledged before: {text}")

    def _write(self, what: str, known: Known) -> None:
        text = self.ledger.text(known.id)
        if what == "item":
            body = {"session_id": "s1", "content": text, "priority": "medium"}
            answer = self.client.ask(known, "/working_memory_add", body)
        else:
            answer = self.client.ask(known, "/feel", {"event": "reward", "because": text})
        if self._told(what, answer):
            self.ledger.wrote(what, known.id, text)

    def _told(self, operation: str, answer: Answer, besides: frozenset[int] = frozenset()) -> bool:
        """Whether it is done. An answer that nobody may be given is a finding."""
        code = ""
        if answer.status not in (0, 200):
            with suppress(ValueError, KeyError, TypeError):
                code = json.loads(answer.body)["code"]
        self.ledger.answered(operation, f"{answer.status} {code}".strip())
        if answer.status not in {0, 200, *_PASSING, *besides}:
            self.ledger.found(f"{operation} was answered {answer.status}: {answer.body.decode()[:300]}")
        return answer.done


# What is asked, and how often among a thousand.
_ACTS: dict[str, tuple[int, Callable[[Agent, str, Known], None]]] = {
    "note": (855, Agent._note),
    "search": (30, Agent._search),
    "bootstrap": (20, Agent._read),
    "state": (10, Agent._read),
    "dream": (10, Agent._dream),
    "session_end": (10, Agent._dream),
    "dream_waited": (5, Agent._dream),
    "item": (20, Agent._write),
    "feel": (10, Agent._write),
    "restore": (30, Agent._restore),
}


class Traffic:
    """So many agents, until a moment of the monotonic clock; what is under way then is asked until `give_up`."""

    def __init__(
        self,
        ledger: Ledger,
        workspaces: Sequence[Known],
        machines: Sequence[Machine],
        rng: random.Random,
        *,
        agents: int,
        per_second: float,
        seconds: float,
        patience: float,
    ) -> None:
        until = time.monotonic() + seconds
        self._threads = list[threading.Thread]()
        for number in range(agents):
            own = random.Random(rng.random())
            agent = Agent(
                own, Client(machines, own), ledger, workspaces, per_second / agents, until, until + patience
            )
            self._threads.append(threading.Thread(target=agent.run, name=f"agent-{number}", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float) -> bool:
        """Wait until all have ended; whether they have."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)
