"""How long an agent waits for a note of a fleet: 500 a second through two processes.

    python -m benchmarks.fleet_notes [--rate 500] [--seconds 60] [--processes 2] [--clients 32] [--folder FOLDER]

Two real `dreamd fleet serve` processes, a PostgreSQL of its own on a disk, with fsync. Clients in two other
processes, each with a connection that is kept, send at moments that were fixed before: who waits for an answer is
late with the next one, and that delay counts. 1,000 workspaces of 50 tenants, with a token each. What is acknowledged
must be in the inboxes, once, at the end. Beside it: one note after another through one process, and the bare
statement.
"""

import argparse
import json
import multiprocessing
import random
import socket
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.fleet import Ground, Process, database, ground, milliseconds, process, row
from benchmarks.serving import home, machine, percentile
from state.fleet import Right
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.registry import Tenants, Tokens

SEED = 13
GOAL = 0.05
TENANTS, WORKSPACES = 50, 1_000
PROCESSES = 2
_SMALL = 200

Sent = tuple[float, float, bool]
"""Seconds from the moment that was fixed, seconds from the sending, and whether it was acknowledged."""


def tokens(made: Ground) -> list[str]:
    """Make a token for each tenant."""
    with database(made.url) as fleet:
        tenants, keys = Tenants(fleet), Tokens(fleet)
        found = [tenants.find(f"tenant-{number}") for number in range(1, TENANTS + 1)]
        return [keys.add(one, "agents", {Right.READ, Right.WRITE}) for one in found]


def address_of(one: Process) -> tuple[str, int]:
    """Return where it listens."""
    [event] = one.events("started")
    parts = urlsplit(event["entrances"][0])
    return parts.hostname or "127.0.0.1", parts.port or 80


def client(
    address: tuple[str, int], bearers: list[str], number: int, begin: float, every: float, count: int
) -> list[Sent]:
    """Send so many notes, one `every` so many seconds from `begin` (of the epoch) on; return how each went."""
    rng, sent = random.Random(f"{SEED}/{number}"), list[Sent]()
    requests = list[bytes]()
    for turn in range(count):
        workspace = rng.randint(1, WORKSPACES)
        body = json.dumps(
            {"note": f"The gateway of site {number} wants certificate {turn} before Friday, said Mira."}
        )
        requests.append(
            f"POST /v1/workspaces/agent-{workspace}/working_memory_note HTTP/1.1\r\n"
            f"Host: {address[0]}:{address[1]}\r\n"
            f"Authorization: Bearer {bearers[(workspace - 1) % TENANTS]}\r\nIdempotency-Key: {number}-{turn}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
    time.sleep(max(0.0, begin - 1.0 - time.time()))  # one that nobody uses would be closed
    with socket.create_connection(address, timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for turn, request in enumerate(requests):
            planned = begin + turn * every
            time.sleep(max(0.0, planned - time.time()))
            sending = time.time()
            connection.sendall(request)
            is_kept = _answered(connection)
            ended = time.time()
            sent.append((ended - max(planned, begin), ended - sending, is_kept))
    return sent


def _answered(connection: socket.socket) -> bool:
    """Read one answer at next to no cost, and tell whether it says that the note was taken."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += _received(connection)
    head, _, rest = got.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(rest) < length:
        rest += _received(connection)
    return head.startswith(b"HTTP/1.1 200")


def _received(connection: socket.socket) -> bytes:
    got = connection.recv(65_536)
    if not got:
        raise ConnectionError("the process has closed the connection")
    return got


def clients(
    addresses: list[tuple[str, int]], bearers: list[str], numbers: list[int], begin: float, every: float, count: int
) -> list[Sent]:
    """Run these clients in a process of their own, and return what each has sent."""
    offset = every / len(numbers)
    with ThreadPoolExecutor(len(numbers)) as pool:
        doing = [
            pool.submit(client, addresses[one % len(addresses)], bearers, one, begin + at * offset, every, count)
            for at, one in enumerate(numbers)
        ]
        return [sent for one in doing for sent in one.result()]


def bare(made: Ground) -> list[float]:
    """Return the seconds of the statement alone, one note each."""
    seconds = []
    with database(made.url) as fleet:
        inbox = Inbox(fleet)
        for number in range(_SMALL):
            one = Arrival(1 + number, 1 + number % TENANTS, "note", f"bare-{number}", '{"text": "tea"}')
            began = time.perf_counter()
            inbox.put([one])
            seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--folder", type=Path, help="where PostgreSQL is, on the disk that is meant")
    given = parser.parse_args()
    with ExitStack() as stack:
        made = stack.enter_context(ground(stack.enter_context(home(given.folder))))
        made.fill(TENANTS, WORKSPACES)
        bearers = tokens(made)
        processes = [stack.enter_context(process(made, number)) for number in range(given.processes)]
        addresses = [address_of(one) for one in processes]
        print(f"{given.rate:g} notes a second, {given.processes} processes, {given.clients} clients; {machine()}")
        row("the bare statement, ms", milliseconds(bare(made)))
        alone = client(addresses[0], bearers, 9_999, time.time(), 0.0, _SMALL)
        row("one client, one after another", milliseconds([took for _, took, _ in alone]))
        before, theirs, used = made.counted(), made.processor(), [one.processor() for one in processes]
        numbers = [list(range(first, given.clients, PROCESSES)) for first in range(PROCESSES)]
        every = given.clients / given.rate
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
            begin = time.time() + 12.0  # all have begun by then
            doing = [
                pool.submit(clients, addresses, bearers, some, begin, every, int(given.seconds / every))
                for some in numbers
            ]
            sent = [one for some in doing for one in some.result()]
            lasted = time.time() - begin
        cost, busy = made.counted() - before, sum(one.processor() for one in processes) - sum(used)
        planned, taken = [one for one, _, _ in sent], [one for _, one, _ in sent]
        row("acknowledged, ms p50/p95/p99", milliseconds(planned), "p95 < 50", met=percentile(planned, 95) < GOAL)
        row("  from its sending", milliseconds(taken))
        good = sum(ok for *_, ok in sent) + sum(ok for *_, ok in alone)
        row("  a second", f"{len(sent) / lasted:.0f}, {len(sent) + len(alone) - good} refused")
        [found] = made.execute("SELECT count(*) AS notes FROM dreamd.inbox WHERE key NOT LIKE 'bare-%'")
        row("  in the inboxes", f"{found['notes']:,} of {good:,}", "all", met=found["notes"] == good)
        row(
            "statements a note",
            f"{cost.statements / len(sent):.2f}, {1000 * cost.seconds / len(sent):.2f} ms of PostgreSQL",
        )
        row("processor time of processes", f"{1000 * busy / len(sent):.2f} ms a note, {busy / lasted:.2f} cores")
        theirs = made.processor() - theirs
        row("  of PostgreSQL", f"{1000 * theirs / len(sent):.2f} ms a note, {theirs / lasted:.2f} cores")
        for calls, each, query in made.most_frequent(8):
            print(f"  {calls:>9,} x {each:8.2f} ms  {query}")
        print(machine())


if __name__ == "__main__":
    main()
