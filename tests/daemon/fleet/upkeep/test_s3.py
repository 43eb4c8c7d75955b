"""The same with a store that speaks S3: what is removed is gone from the bucket, what was lost is found in it."""

from contextlib import closing
from pathlib import Path

from daemon.fleet.upkeep.recovery import Finding, Survey
from daemon.fleet.upkeep.removal import remove
from state.stores.fleet.registry import Places
from tests.daemon.fleet.upkeep.kept import Kept
from tests.support.s3 import S3


def test_removal_and_recovery_in_a_bucket(fleet: Kept, s3: S3, tmp_path: Path) -> None:
    with closing(Kept(fleet.url, tmp_path, options=s3.options, objects_url=s3.url)) as there:
        there.live()
        tenants = [there.tenant(f"tenant-{number}") for number in range(12)]  # 1 and 10, 11, 12 begin alike
        places = [there.place(tenant, "notes") for tenant in tenants]
        last = {place: there.commit(place, "tea") for place in places}
        there.commit(places[0], "coffee")
        receipt = remove(there.database, there.objects, tenants[0])
        assert (receipt.objects, receipt.objects_left, receipt.rows_left) == (2, 0, 0)
        kept = {"/".join(one.key.split("/")[:2]) for one in there.objects.list("")}
        assert kept == {place.prefix for place in places[1:]}
        there.database.rows("DELETE FROM workspaces WHERE id > 6")
        there.database.rows("DELETE FROM tenants WHERE id > 9")
        found = [*Survey(there.connections).recover(tmp_path)]
        assert sorted(one.finding for one in found) == [Finding.CURRENT] * 5 + [Finding.MISSING] * 6
        assert all(one.done for one in found if one.finding is Finding.MISSING)
        for place in places[1:]:
            assert Places(there.database).find(place.tenant, "notes").generation == last[place]
