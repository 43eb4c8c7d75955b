"""How long the window's pages take on a large workspace, and how much a browser is sent.

    python -m benchmarks.pages [--crystals 10000] [--dreams 1000] [--requests 40] [--folder FOLDER]

A real daemon (`dreamd serve`) keeps one workspace with so many crystals (`benchmarks.workload`) and as many dreams,
each committed without a model over a note of its own; beside them are sessions, and changes that wait. One browser
that is logged in asks for every page of the table in turn, over one connection that is kept; the time is that of its
requests, from sending to the last byte. Goal: p95 under 100 ms, a first page under 60 KB. --folder keeps it
for the next time; to make the workspace takes minutes.
"""

import argparse
import http.client
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from benchmarks.serving import daemon, environment, home, machine, percentile
from benchmarks.workload import Workload
from daemon import sessions
from daemon.api.access import LocalAccess
from daemon.config.settings import Config, DreamSection
from daemon.dream.run import Mode, dream_now
from daemon.pages.views import PAGES
from daemon.workspace.adoption import init_workspace
from daemon.workspace.searching import embed_waiting
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.document.asking import Ask
from state.dream import Reason
from state.errors import DreamdError
from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.proposals import Proposals
from state.stores.vectors.embedder import Unavailable

SEED = 11
SLOWEST_MS, LARGEST = 100.0, 60 * 1024
PORT = 7397
SESSIONS, ITEMS = 100, 20
NAMES = "Ada Ben Cleo Dora Emil Finn Greta Hugo Ida Jan Kurt Lea Mia Nils Olga Paul Rosa Sam Tina Udo".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--crystals", type=int, default=10_000)
    parser.add_argument("--dreams", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with home(None) as place:
        kept = arguments.folder or place
        os.environ |= environment(place, XDG_DATA_HOME=str(kept / "data"))
        root = kept / "memory"
        workspace = init_workspace(root)
        fill(workspace, arguments.crystals, arguments.dreams)
        with daemon(place, [workspace], DREAMD_HTTP__PORT=str(PORT), XDG_DATA_HOME=str(kept / "data")) as running:
            running.settle()
            url = urlsplit(running.client.post("/v1/login", {"workspace": workspace.name})["url"])
            print(f"{arguments.crystals:,} crystals, {arguments.dreams:,} dreams; {machine()}")
            print(f"{'page':<34} {'p50 ms':>7} {'p95 ms':>7} {'bytes':>8}")
            show(url.port or PORT, url.path, workspace.name, arguments.requests)


def fill(workspace: Workspace, crystals: int, dreams: int) -> None:
    """Bring the workspace to this size."""
    access = LocalAccess(workspace, Config(), "a benchmark", embedding=Embedding.given(Unavailable("not asked")))
    with access, access.write() as store:
        workload = Workload(SEED)
        for number in range(store.lineage.last_version(), dreams):
            store.notes.inbox.append(
                Note(f"The server number {number} of Ada listens on port {number + 1024}", utc_now())
            )
            try:
                dream_now(store, Reason.MANUAL, Mode.AUTO)
            except DreamdError as error:
                print(f"dream {number}: {error}")
        have = store.crystals.count()
        if have < crystals:
            store.crystals.learn(one for one, _ in workload.crystals(have, crystals - have))
    with LocalAccess(workspace, Config(), "a benchmark") as access, access.write() as store:
        embed_waiting(store)
        if not Proposals(store.connection).count():
            ask_about(store)
        is_new = store.connection.execute("SELECT 1 FROM sessions").fetchone() is None
        for number in range(SESSIONS if is_new else 0):
            for place in range(ITEMS):
                draft = sessions.Draft(f"House {place} of street {number} is painted", priority="medium")
                sessions.add(store, f"agent-{number}", draft, utc_now())


def ask_about(store: Store) -> None:
    """Run a dream that asks about every line."""
    for name in NAMES:
        store.notes.inbox.append(Note(f"{name} prefers tea in the morning", utc_now(), 0.8))
    dream_now(replace(store, config=Config(dream=DreamSection(ask=Ask.ALL))), Reason.MANUAL, Mode.AUTO)


def addresses(connection: http.client.HTTPConnection, cookie: str, name: str) -> Iterator[str]:
    """Yield every page, with something that is there where it wants one."""

    def first(page: str, key: str) -> str:
        connection.request("GET", f"/w/{name}/{page}", headers={"Cookie": cookie})
        found = re.search(rf'"{key}": ?"([^"]+)"', connection.getresponse().read().decode())
        return found[1] if found else ""

    wanted = {
        "line": {"id": first("memory.json", "id")},
        "dream": {"dream": first("dreams.json", "id")},
        "crystal": {"id": first("memory.json?all=true", "id")},
        "session": {"session_id": first("memory.json", "session_id")},
    }
    for page in PAGES:
        fields = {key: one for key, one in wanted.get(page, {}).items() if one}
        if page not in wanted or fields:
            yield f"/w/{name}/{page}" + (f"?{urlencode(fields)}" if fields else "")
    day = (utc_now() - timedelta(days=1)).date()
    for query in ("query=which+port+does+the+server+listen+on", "all=true", f"as_of={day}"):
        yield f"/w/{name}/memory?{query}"
    yield f"/w/{name}/wrong?{urlencode({'line': wanted['line']['id']})}"
    yield "/"


def show(port: int, login: str, name: str, requests: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", login)
    answer = connection.getresponse()
    answer.read()
    cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
    for path in list(addresses(connection, cookie, name)):
        times, size = list[float](), 0
        for _ in range(requests):
            began = time.perf_counter()
            connection.request("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})
            answer = connection.getresponse()
            size = len(answer.read())
            times.append(1000 * (time.perf_counter() - began))
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status}")
        slow, large = percentile(times, 95), size
        missed = " MISSED" if slow > SLOWEST_MS or large > LARGEST else ""
        shown = path.removeprefix(f"/w/{name}").partition("?")[0]
        print(f"{shown:<34} {percentile(times, 50):>7.1f} {slow:>7.1f} {size:>8,}{missed}")


if __name__ == "__main__":
    main()
