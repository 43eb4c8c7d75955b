"""After PostgreSQL was lost or restored, every workspace is what the store has, and no note is lost or doubled."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from daemon.fleet.connections import adopt_store, connect, connect_to_recover
from daemon.fleet.upkeep.recovery import Finding, Found, Survey, require_stopped
from state.errors import BusyError, ConfigError, StorageError
from state.fleet import Place
from state.stores.fleet.database import migrate
from state.stores.generations.versions import key_of
from tests.daemon.fleet.upkeep.kept import Kept
from tests.support.notes import pending_notes
from tests.support.postgres import Postgres

OTHER_MARK = "11111111-2a53-4f6a-9d0b-3d1f3a3cb0aa"


def recovered(fleet: Kept, *, older: bool = False) -> list[Found]:
    return [*Survey(fleet.connections, older).recover()]


def generation_of(fleet: Kept, place: Place) -> int:
    return fleet.places.find(place.tenant, place.name).generation


def set_back(fleet: Kept, place: Place, to: int) -> None:
    """As a backup has the row that was taken at this generation."""
    fleet.database.rows(
        "UPDATE workspaces SET generation = %(number)s WHERE id = %(id)s", {"id": place.id, "number": to}
    )


def damage(fleet: Kept, place: Place, number: int, content: bytes = b"not what was written") -> None:
    path = fleet.folder / "objects" / key_of(place.prefix, number)
    path.unlink()
    if content:
        path.write_bytes(content)


@pytest.fixture
def fresh(fleet: Kept, postgres: Postgres) -> Iterator[Kept]:
    """The same store with a database that was lost, and made anew."""
    url = postgres.new_database()
    migrate(url, OTHER_MARK)
    again = Kept(url, fleet.folder)
    yield again
    again.close()


def test_a_row_of_an_older_backup_needs_no_recovery(fleet: Kept) -> None:
    """Its memory is the store's at the first call; a note that is in it, and in the inbox again, is there once."""
    fleet.live()
    token, place = fleet.one()
    at = datetime(2026, 4, 1, 12, 0, 30, 500, tzinfo=UTC).isoformat()
    fleet.note(place, "taken in since", at=at)
    with fleet.here() as door:
        door.run(place, "working_memory_note", note="tea", importance=0.8)
        door.run(place, "working_memory_note", note="coffee", importance=0.8)
    assert generation_of(fleet, place) == 2
    fleet.database.rows(
        "UPDATE inbox SET taken_at = NULL, body = %(b)s",
        {"b": json.dumps({"text": "taken in since", "importance": 0.8, "at": at})},
    )
    set_back(fleet, place, 1)
    assert [one.finding for one in recovered(fleet)] == [Finding.CURRENT]
    fleet.note(place, "of the time after")
    with fleet.here() as door:
        assert door.search(token, "one", "coffee") == ["coffee"]
        door.run(place, "working_memory_note", note="milk", importance=0.8)
    assert (generation_of(fleet, place), fleet.waiting(place)) == (3, 0)
    assert sorted(fleet.crystals(place)) == ["coffee", "milk", "of the time after", "taken in since", "tea"]


def test_what_a_holder_put_before_it_died_is_there_and_its_inbox_is_not_taken_twice(fleet: Kept) -> None:
    fleet.live()
    token, place = fleet.one()
    fleet.commit(place, "tea")
    at = datetime(2026, 4, 1, 12, 0, 30, 500, tzinfo=UTC)
    fleet.note(place, "honey", at=at.isoformat())
    fleet.begin(fleet.lease(place), "salt", "honey", at=at)
    fleet.die()
    with fleet.here() as door:
        assert door.search(token, "one", "salt") == ["salt"]
        door.run(place, "working_memory_note", note="milk", importance=0.8)
    assert (generation_of(fleet, place), fleet.waiting(place)) == (3, 0)
    assert sorted(fleet.crystals(place)) == ["honey", "milk", "salt", "tea"]


@pytest.mark.parametrize("content", [b"not what was written", b""], ids=["damaged", "missing"])
def test_where_the_last_generation_is_damaged_an_older_one_is_taken_when_that_is_asked_for(
    fleet: Kept, content: bytes
) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    for text in ("tea", "coffee"):
        fleet.commit(place, text)
    damage(fleet, place, 2, content)
    with pytest.raises(StorageError, match="000000000002"):  # nobody goes on from an older one by the way
        fleet.commit(place, "milk")
    [found] = recovered(fleet)
    assert (found.finding, found.done) == (Finding.DAMAGED, False)
    assert "--older" in found.problem
    assert generation_of(fleet, place) == 2
    [found] = recovered(fleet, older=True)
    assert found.done
    assert generation_of(fleet, place) == 1
    assert fleet.commit(place, "milk") == 2
    assert [one.text for one in pending_notes(fleet.last(place))] == ["tea", "milk"]


def test_a_new_workspace_with_the_number_of_a_lost_one_gets_none_of_its_memory(fleet: Kept, fresh: Kept) -> None:
    fleet.live()
    fleet.commit(fleet.place(fleet.tenant("acme"), "notes"), "tea")
    mine = fresh.place(fresh.tenant("new"), "mine")  # with the numbers that acme had
    fresh.live()
    with pytest.raises(StorageError, match="is of acme/notes, not of workspace mine of tenant new"):
        fresh.commit(mine, "coffee")
    found = recovered(fresh)
    assert [(one.finding, one.done, one.tenant, one.workspace) for one in found] == [
        (Finding.FOREIGN, False, "acme", "notes")
    ]
    with pytest.raises(ConfigError, match="another fleet's"):
        connect_to_recover(fresh.config(), {})


def test_a_database_that_was_lost_is_made_anew_with_names_and_numbers(fleet: Kept, fresh: Kept) -> None:
    fleet.live()
    acme, other = fleet.tenant("acme"), fleet.tenant("other")
    fleet.tenant("nobody")
    places = [fleet.place(acme, "one"), fleet.place(other, "one"), fleet.place(acme, "two")]
    last = {place: fleet.commit(place, "tea") for place in places}
    config = fresh.config()
    with pytest.raises(ConfigError, match="another fleet's"):
        connect(config, {})
    both = connect_to_recover(config, {})
    adopt_store(both, config.fleet.objects)
    both.close()
    done = recovered(fresh)
    assert [(one.finding, one.done) for one in done] == [(Finding.MISSING, True)] * 3
    assert {place: generation_of(fresh, place) for place in places} == last
    connect(config, {}).close()  # the store is its own
    assert [one.finding for one in recovered(fresh)] == [Finding.CURRENT] * 3
    assert fresh.tenant("new").id > other.id
    assert fresh.place(fresh.tenants.find("new"), "x").id > places[-1].id


def test_what_has_neither_row_nor_name_is_told_and_its_numbers_are_not_given_again(fleet: Kept, fresh: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    fleet.commit(place, "tea")
    damage(fleet, place, 1)
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
