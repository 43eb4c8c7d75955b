"""What is removed is gone: every object and every row, also when the removal was cut off; and nothing of others."""

from uuid import uuid4

import pytest

from daemon.fleet.upkeep.removal import delete_late, finish_removals, remove
from state.budget import Spend
from state.errors import FencedError, NotFoundError, StorageError
from state.fleet import Right
from state.stores.fleet.leases import Commit
from state.stores.generations.objects import FolderObjects
from tests.daemon.fleet.upkeep.kept import Kept
from tests.support.postgres import Postgres
from tests.support.serving import until

_TABLES = ("tenants", "tokens", "workspaces", "inbox", "spending", "arrivals", "procrastinate_jobs")


def filled(fleet: Kept, name: str) -> None:
    tenant = fleet.tenant(name)
    fleet.database.tokens.add(tenant, "agents", [Right.READ])
    for workspace in ("one", "two"):
        place = fleet.place(tenant, workspace)
        fleet.commit(place, "tea", "coffee", spent=Spend(2, 300, 0.5))
        fleet.commit(place, "milk")
        fleet.commit(place, "honey")
        fleet.note(place, "sugar")
        fleet.schedule.queue(place.id)


def everything(fleet: Kept, tenant: str) -> dict[str, object]:
    """All that there is of a tenant."""
    number = fleet.tenants.find(tenant).id
    counts = {table: len(fleet.database.rows(f"TABLE {table}")) for table in _TABLES}
    return {"objects": sorted((one.key, one.size) for one in fleet.objects.list(str(number))), **counts}


def test_of_a_removed_tenant_nothing_is_left_and_of_another_nothing_is_gone(fleet: Kept) -> None:
    fleet.live()
    filled(fleet, "other")
    before = everything(fleet, "other")
    filled(fleet, "acme")
    acme = fleet.tenants.find("acme")
    receipt = remove(fleet.database, fleet.objects, acme)
    assert (receipt.objects_left, receipt.rows_left, receipt.remains.tables) == (0, 0, ())
    assert (receipt.workspaces, receipt.rows["inbox"], receipt.rows["tokens"]) == (2, 2, 1)
    assert (receipt.rows["jobs"], receipt.rows["spending"]) == (2, 2)
    assert receipt.objects == 6
    assert receipt.bytes > 1_000
    assert everything(fleet, "other") == before
    with pytest.raises(NotFoundError):
        remove(fleet.database, fleet.objects, acme)


def test_what_a_removed_workspace_cost_counts_for_its_tenant_until_that_is_removed(fleet: Kept) -> None:
    fleet.live()
    filled(fleet, "acme")
    acme = fleet.tenants.find("acme")
    spent = fleet.places.use(acme.id).tokens
    receipt = remove(fleet.database, fleet.objects, fleet.places.find(acme.id, "one").place)
    assert receipt.rows_left == 0
    assert fleet.places.use(acme.id).tokens == spent == 600
    assert remove(fleet.database, fleet.objects, acme).rows["spending"] == 2
    assert fleet.database.rows("TABLE spending") == []


def test_tables_lose_the_bytes_of_what_was_forgotten(fleet: Kept, postgres: Postgres) -> None:
    fleet.live()
    place, secret = fleet.place(), f"the code of cellar {uuid4().hex}"
    fleet.commit(place, "tea", taken=(fleet.note(place, secret),))
    fleet.database.rows(
        "INSERT INTO erased (tenant, workspace, kept, due_at) SELECT tenant, id, '1', now() FROM workspaces"
    )
    assert "base" in postgres.rooms_with(secret)
    delete_late(fleet.database, fleet.objects)
    assert "base" not in postgres.rooms_with(secret)


def test_what_an_owner_had_begun_when_its_tenant_was_removed_is_not_committed_and_its_objects_go(fleet: Kept) -> None:
    fleet.live()
    tenant = fleet.tenant("acme")
    lease = fleet.lease(fleet.place(tenant, "notes"))
    receipt = remove(fleet.database, fleet.objects, tenant)
    assert receipt.objects == 0
    generation, size = fleet.begin(lease, "tea")  # it does not know yet
    with pytest.raises(FencedError):
        fleet.leases.commit(lease, Commit(generation, size))
    assert [*fleet.objects.list(str(tenant.id))]
    fleet.database.rows("UPDATE erased SET due_at = clock_timestamp()")
    delete_late(fleet.database, fleet.objects)
    assert [*fleet.objects.list(str(tenant.id))] == []


class Failing(FolderObjects):
    """A store that fails after so many deletions."""

    left = 0

    def delete(self, keys: object) -> None:
        if not self.left:
            raise StorageError("the store fails")
        self.left -= 1
        super().delete([*keys][:1])  # type: ignore[misc]


@pytest.mark.full
def test_a_process_finishes_what_was_closed(fleet: Kept) -> None:
    other = fleet.tenant("other")
    fleet.live()
    fleet.commit(fleet.place(other, "notes"), "tea")
    fleet.database.removals.close(other)
    with fleet.process() as process:
        until(lambda: fleet.database.rows("SELECT name FROM tenants") == [], seconds=60)
        assert [*fleet.objects.list(str(other.id))] == []
        until(lambda: "removal_finished" in process.log)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_removal_that_was_cut_off_goes_on(fleet: Kept, left: int) -> None:
    fleet.live()
    filled(fleet, "acme")
    filled(fleet, "other")
    other = fleet.tenants.find("other")
    failing = Failing(fleet.folder / "objects")
    failing.left = left
    with pytest.raises(StorageError):
        remove(fleet.database, failing, fleet.tenants.find("acme"))
    failing.left = left
    with pytest.raises(StorageError):
        remove(fleet.database, failing, fleet.places.find(other.id, "one").place)
    with pytest.raises(NotFoundError):
        fleet.tenants.find("acme")
    with pytest.raises(NotFoundError):
        fleet.places.find(other.id, "one")
    receipts = finish_removals(fleet.database, fleet.objects)
    assert sorted((one.tenant, one.workspace, one.objects_left, one.rows_left) for one in receipts) == [
        ("acme", "", 0, 0),
        ("other", "one", 0, 0),
    ]
    assert finish_removals(fleet.database, fleet.objects) == []
    prefixes = {one.key.partition("/generations")[0] for one in fleet.objects.list("")}
    kept = fleet.places.find(other.id, "two").place
    assert prefixes == {"fleet", kept.prefix}
