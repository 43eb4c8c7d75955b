"""The machinery of the tests is what they take it for: what fails does so as it says, and nothing is left of it."""

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import psycopg
import pytest

from tests.support import postgres as server_of_postgres
from tests.support.browser import Seen, axe, born, browser_page
from tests.support.clocks import Clock, follow
from tests.support.forked import FOLDER, ROOT, Forked, run
from tests.support.hostile_texts import BY_NAME
from tests.support.partition import Partition
from tests.support.serving import until

_PATIENCE, _HOUR = 60.0, 3600.0


@pytest.mark.parametrize(
    "said",
    [b"", b"\0\0", b"\0\0\1\0", b'\0\0\1\0{"words":'],
    ids=["nothing", "half a length", "no request", "half a request"],
)
def test_whoever_is_killed_while_asking_for_a_process_takes_nobody_along(said: bytes, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert run(["--version"], environment=environment).returncode == 0
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(Path(os.environ[FOLDER], "socket")))
        line.sendall(said)
    assert run(["--version"], environment=environment).returncode == 0


# ----------------------------------------------------------------- wrong clocks


def tell_wrong(path: str) -> None:
    """In a process of the test: what the time is, whenever a line comes."""
    follow(path)
    for _ in sys.stdin:
        times = [datetime.now(UTC).timestamp(), datetime.now().timestamp(), time.time(), time.time_ns() / 1e9]
        times.append(datetime(*time.gmtime()[:6], tzinfo=UTC).timestamp())
        assert date.today() == datetime.now().date()  # noqa: DTZ011
        assert time.gmtime(0).tm_year == 1970
        print(json.dumps([*times, time.monotonic()]), flush=True)


def test_a_clock_is_wrong_and_jumps(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock", _HOUR)
    where, words = clock.before
    assert where.endswith(":follow")
    process: Forked[bytes] = Forked(
        [], before=(f"{__name__}:tell_wrong", words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (_HOUR, -_HOUR, 0.0):
            clock.set(seconds)
            before, began = time.time(), time.monotonic()
            process.stdin.write(b"\n")
            process.stdin.flush()
            *times, monotonic = json.loads(process.stdout.readline())
            assert all(abs(one - before - seconds) <= time.time() - before + 2 for one in times), (times, before)
            assert began <= monotonic <= time.monotonic()
        process.kill()


# ------------------------------------------------------------ a network that fails


class Echo(socketserver.BaseRequestHandler):
    """Says what it hears; the server remembers it."""

    def handle(self) -> None:
        while said := self.request.recv(100):
            HEARD.append(said)
            self.request.sendall(said)


HEARD = list[bytes]()


@pytest.fixture
def door() -> Iterator[Partition]:
    HEARD.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        with Partition(server.server_address[1]) as opened:
            yield opened
        server.shutdown()


def connected(door: Partition) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), _PATIENCE)


def answer(line: socket.socket, said: bytes) -> bytes:
    line.sendall(said)
    return line.recv(100)


def test_an_answer_that_is_held_and_then_lost_was_heard(door: Partition) -> None:
    with connected(door) as line:
        assert answer(line, b"the first") == b"the first"
        door.hold_answers()
        line.sendall(b"the second")
        until(lambda: b"the second" in HEARD)
        door.cut()
        door.heal()
        assert line.recv(100) == b""
    with connected(door) as line:
        assert answer(line, b"the second") == b"the second"


# -------------------------------------------------------------------- the servers


def test_nothing_is_left_of_a_postgresql_whose_tests_were_killed(tmp_path: Path) -> None:
    server_of_postgres.binaries()
    told = tmp_path / "told"
    program = (
        "import sys, time; from pathlib import Path; from tests.support.postgres import Postgres;"
        "server = Postgres(durable=False); server.start(); told = Path(sys.argv[1]);"
        "told.with_suffix('.new').write_text(f'{server.port} {server._folder}');"
        "told.with_suffix('.new').rename(told); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, told], cwd=ROOT) as process:
        until(told.exists)
        port, folder = told.read_text().split()
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: not Path(folder).exists())
    assert server_of_postgres._processes(Path(folder)) == []
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(f"postgresql://nobody@127.0.0.1:{port}/postgres")


# ------------------------------------------------------------------------ a browser

_ADDRESS = "http://window.test/"
_PAGE = '<!doctype html><html lang="en"><title>Memory</title><main><h1>Memory</h1>{}</main></html>'
# Each shows itself in a way of its own: it runs, asks another host, asks for a path, makes an attribute or a link.
_ALIVE = (
    "script-plain script-source script-own-source handler-image svg-load breakout-single-tag unclosed-table"
    " address-data-link style-import document-frame-text document-link-style clobbering-htmx htmx-on-event"
    " htmx-out-of-band markdown-html-line mutation-no-script mutation-shadow template-block-end"
).split()


def shown(seen: Seen, body: str) -> None:
    """Show this as the text of a page."""
    headers = {"Content-Type": "text/html; charset=utf-8"}
    seen.page.route(_ADDRESS, lambda route: route.fulfill(body=_PAGE.format(body), headers=headers))
    seen.page.goto(_ADDRESS, wait_until="commit")
    seen.page.wait_for_load_state("domcontentloaded")


@pytest.mark.full
def test_a_text_that_is_not_escaped_is_seen() -> None:
    with browser_page() as seen:
        for name in _ALIVE:
            one = BY_NAME[name]
            shown(seen, one.text)
            assert born(seen) or seen.runs or seen.strangers, name
        seen.errors.clear()
        shown(seen, "<img src='data:,'><script>alert('x'); nobody()</script>")
        assert seen.dialogs[-1] == "alert: x"
        assert "nobody is not defined" in "".join(seen.errors)
        assert [one.split(":")[0] for one in axe(seen)] == ["critical image-alt"]


# ----------------------------------------------------------------- examples of laws

DRAW = """
import json
from hypothesis import given, settings, strategies
import tests.conftest
from tests.support.long_variants import examples

def drawn():
    texts = []

    @examples(60)
    @given(strategies.lists(strategies.text(), max_size=3))
    def law(text):
        texts.append(text)

    law()
    return texts

of_profiles = {"few": drawn()}
for name in ("all", "other"):
    settings.load_profile(name)
    of_profiles[name] = drawn()
print(json.dumps(of_profiles))
"""


def test_what_decides_draws_the_same_examples_each_time_and_make_laws_draws_others(tmp_path: Path) -> None:
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", DRAW],
                cwd=tmp_path,
                env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "HOME": str(tmp_path)},
                capture_output=True,
                check=True,
            ).stdout
        )
        for seed in "12"
    )
    assert min(map(len, first.values())) > 5
    is_same = {name: texts == second[name] for name, texts in first.items()}
    assert is_same == {"few": True, "all": True, "other": False}
