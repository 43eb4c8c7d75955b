"""With a worker under way, a real process: what it commits can be recovered, what is removed it deletes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from daemon.fleet.upkeep.status import fleet_status
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Processes
from state.stores.fleet.schedule import Schedule
from state.stores.fleet.tenants import Tenants
from state.stores.generations.generations import Generations
from tests.daemon.fleet.upkeep.kept import Kept


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.full
def test_a_worker_names_what_it_commits_and_finishes_what_was_closed(fleet: Kept) -> None:
    fleet.live()
    acme, other = fleet.tenant("acme"), fleet.tenant("other")
    fleet.commit(fleet.place(other, "notes"), "tea")
    Tenants(fleet.database).close(other)
    fleet.die()
    place = fleet.place(acme, "notes")
    fleet.arrive(place, "coffee")
    Schedule(fleet.database).queue(place.id)
    words = [sys.executable, "-m", "daemon", "worker"]
    worker = subprocess.Popen(words, env=dict(os.environ), stderr=subprocess.PIPE)
    try:
        until(lambda: Places(fleet.database).find(acme.id, "notes").generation.number)
        key = Places(fleet.database).find(acme.id, "notes").generation.key
        manifest = Generations(fleet.objects, place.prefix).manifest(key)
        assert (manifest.tenant, manifest.workspace) == ("acme", "notes")
        until(lambda: fleet.rows("SELECT name FROM tenants") == [{"name": "acme"}])
        assert [*fleet.objects.list(str(other.id))] == []
        status = fleet_status(fleet.database, fleet.config)
        assert [one.kind for one in status.processes if one.alive] == ["worker"]
        worker.send_signal(signal.SIGTERM)
        _, log = worker.communicate(timeout=30)
    finally:
        worker.kill()
        worker.wait()
    assert b"removal_finished" in log
    assert [one.alive for one in Processes(fleet.database).all()] == [False]
