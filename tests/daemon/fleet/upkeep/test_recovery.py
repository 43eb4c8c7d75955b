"""After PostgreSQL was lost or restored, the registry is what the store has; no generation ever becomes lower."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from daemon.fleet.connections import connect, connect_to_recover
from daemon.fleet.upkeep.recovery import Finding, Found, Survey, require_stopped
from state.errors import BusyError, ConfigError
from state.fleet import Generation, Place
from state.stores.disk.workspace import contained
from state.stores.fleet.database import migrate
from state.stores.fleet.leases import Commit
from state.stores.generations.generations import Generations
from tests.daemon.fleet.upkeep.kept import Kept, append
from tests.support.postgres import Postgres

OTHER_MARK = "11111111-2a53-4f6a-9d0b-3d1f3a3cb0aa"


def recovered(fleet: Kept, **how: bool) -> list[Found]:
    own = fleet.folder / "scratch"
    own.mkdir(exist_ok=True)
    found = [*Survey(fleet.connections, **how).recover(own)]
    assert not [*own.iterdir()]
    return found


def generation_of(fleet: Kept, place: Place) -> Generation:
    return fleet.places.find(place.tenant, place.name).generation


def set_back(fleet: Kept, place: Place, to: Generation) -> None:
    """As a backup has the row that was taken at this generation."""
    fleet.database.rows(
        "UPDATE workspaces SET generation = %(number)s, key = %(key)s WHERE id = %(id)s",
        {"id": place.id, "number": to.number, "key": to.key},
    )


@pytest.fixture
def fresh(fleet: Kept, postgres: Postgres) -> Iterator[Kept]:
    """The same store with a database that was lost, and made anew."""
    url = postgres.new_database()
    migrate(url, OTHER_MARK)
    again = Kept(url, fleet.folder)
    yield again
    again.close()


def test_rows_of_an_older_backup_are_brought_up_and_current_ones_stay(fleet: Kept) -> None:
    fleet.live()
    acme = fleet.tenant("acme")
    behind, current, empty = (fleet.place(acme, name) for name in ("behind", "current", "empty"))
    first = fleet.commit(behind, "tea")
    fleet.commit(behind, "coffee")
    last = fleet.commit(behind, "milk")
    kept = fleet.commit(current, "sugar")
    set_back(fleet, behind, first)
    before = fleet.database.rows("SELECT * FROM workspaces ORDER BY id")
    shown = [*Survey(fleet.connections).found()]
    assert [
        (one.workspace, one.finding, one.row, one.store) for one in shown if one.finding is not Finding.CURRENT
    ] == [("behind", Finding.BEHIND, 1, 3)]
    assert fleet.database.rows("SELECT * FROM workspaces ORDER BY id") == before
    done = {one.workspace: one for one in recovered(fleet)}
    assert (done["behind"].done, done["current"].done) == (True, False)
    assert (generation_of(fleet, behind), generation_of(fleet, current)) == (last, kept)
    assert generation_of(fleet, empty) == Generation()
    [row] = fleet.database.rows("SELECT bytes, due_at FROM workspaces WHERE id = %(id)s", {"id": behind.id})
    assert row["due_at"] is not None
    assert fleet.commit(behind, "honey").number == 4
    assert [one.finding for one in recovered(fleet)] == [Finding.CURRENT] * 2


def test_a_generation_whose_owner_died_before_its_commit_is_taken_and_its_inbox_not_twice(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    fleet.commit(place, "tea")
    at = datetime(2026, 4, 1, 12, 0, 30, 500, tzinfo=UTC)
    fleet.note(place, "honey", at=at.isoformat())
    fleet.note(place, "salt", at=at.isoformat())
    fleet.put(place, body="[]")
    lease = fleet.lease(place)
    copies = fleet.folder / "copies" / place.handle
    append(contained(copies), "honey", at)
    generations = Generations(fleet.objects, place.prefix)
    key = generations.put(generations.take(copies), lease, datetime.now(UTC)).key
    [found] = recovered(fleet)
    assert (found.finding, found.done, found.inbox) == (Finding.BEHIND, True, 1)
    assert generation_of(fleet, place) == Generation(2, key)
    assert [row["body"] != "" for row in fleet.database.rows("SELECT body FROM inbox ORDER BY id")] == [
        False,
        True,
        True,
    ]


def test_a_generation_that_is_not_whole_is_left_out(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    first = fleet.commit(place, "tea")
    second = fleet.commit(place, "coffee")
    third = fleet.commit(place, "milk")
    (fleet.folder / "objects" / third.key).write_bytes(b"not what was written")
    set_back(fleet, place, first)
    assert [one.store for one in recovered(fleet)] == [2]
    assert generation_of(fleet, place) == second


def test_where_the_last_generation_is_damaged_an_older_one_is_taken_when_that_is_asked_for(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    first = fleet.commit(place, "tea")
    second = fleet.commit(place, "coffee")
    (fleet.folder / "objects" / second.key).unlink()
    [found] = recovered(fleet)
    assert (found.finding, found.done) == (Finding.DAMAGED, False)
    assert "--older" in found.problem
    assert generation_of(fleet, place) == second
    [found] = recovered(fleet, older=True)
    assert found.done
    assert generation_of(fleet, place) == Generation(2, first.key)
    assert fleet.commit(place, "milk").number == 3


def test_of_two_owners_of_one_number_the_later_one_counts(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    first = fleet.commit(place, "tea")
    stopped = fleet.lease(place)
    fleet.die()
    fleet.live()
    fleet.begin(stopped, "never committed")
    second = fleet.commit(place, "coffee")
    set_back(fleet, place, first)
    recovered(fleet)
    assert generation_of(fleet, place) == second
    fleet.begin(stopped, "by one who wakes up late")
    [found] = recovered(fleet)
    assert found.finding is Finding.CURRENT


def test_what_processes_did_after_a_restore_is_not_replaced_unless_it_is_insisted(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    first = fleet.commit(place, "tea")
    lost_lease = fleet.lease(place)
    for text in ("coffee", "milk"):  # made long ago, before the restore
        generation, size = fleet.begin(lost_lease, text, at=datetime.now(UTC) - timedelta(days=1))
        lost_lease = fleet.leases.commit(lost_lease, Commit(generation, size))
    set_back(fleet, place, first)
    fleet.die()
    fleet.live()
    fork = fleet.commit(place, "honey")
    [found] = recovered(fleet)
    assert not found.done
    assert "--force" in found.problem
    assert generation_of(fleet, place) == fork
    [found] = recovered(fleet, insistent=True)
    assert generation_of(fleet, place) == lost_lease.generation


def test_a_database_that_was_lost_is_made_anew_with_names_and_numbers(fleet: Kept, fresh: Kept) -> None:
    fleet.live()
    acme, other = fleet.tenant("acme"), fleet.tenant("other")
    fleet.tenant("nobody")
    places = [fleet.place(acme, "one"), fleet.place(other, "one"), fleet.place(acme, "two")]
    last = {place: fleet.commit(place, "tea") for place in places}
    config = fresh.config()
    with pytest.raises(ConfigError, match="another fleet's"):
        connect(config, {})
    connect_to_recover(config, {}, adopt=True).close()
    done = recovered(fresh)
    assert [(one.finding, one.done) for one in done] == [(Finding.MISSING, True)] * 3
    assert {place: generation_of(fresh, place) for place in places} == last
    connect(config, {}).close()  # the store is its own
    assert [one.finding for one in recovered(fresh)] == [Finding.CURRENT] * 3
    assert fresh.tenant("new").id > other.id
    assert fresh.place(fresh.tenants.find("new"), "x").id > places[-1].id


def test_numbers_of_another_name_are_left_alone(fleet: Kept, fresh: Kept) -> None:
    fleet.live()
    fleet.commit(fleet.place(fleet.tenant("acme"), "notes"), "tea")
    mine = fresh.place(fresh.tenant("new"), "mine")  # with the numbers that acme had
    found = recovered(fresh)
    assert [(one.finding, one.done, one.tenant, one.workspace) for one in found] == [
        (Finding.FOREIGN, False, "acme", "notes")
    ]
    assert generation_of(fresh, mine) == Generation()
    with pytest.raises(ConfigError):
        connect_to_recover(fresh.config(), {}, adopt=True)


def test_what_has_neither_row_nor_name_is_told_and_its_numbers_are_not_given_again(fleet: Kept, fresh: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    last = fleet.commit(place, "tea")
    (fleet.folder / "objects" / last.key).write_bytes(b"not what was written")
    [found] = recovered(fresh)
    assert (found.finding, found.prefix, found.done) == (Finding.UNNAMED, place.prefix, False)
    new = fresh.tenant("new")
    assert (new.id, fresh.place(new, "x").id) == (place.tenant + 1, place.id + 1)


def test_a_row_of_which_the_store_has_nothing_is_told_and_stays(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    last = fleet.commit(place, "tea")
    fleet.objects.delete([one.key for one in fleet.objects.list(place.prefix)])
    [found] = recovered(fleet)
    assert (found.finding, found.done) == (Finding.LOST, False)
    assert found.problem
    assert generation_of(fleet, place) == last


def test_while_a_process_lives_nothing_is_recovered(fleet: Kept) -> None:
    fleet.live()
    with pytest.raises(BusyError):
        require_stopped(fleet.connections)
    fleet.die()
    require_stopped(fleet.connections)
