"""A workspace moves from a fleet and into one, with everything that was acknowledged."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.fleet.connections import own_folder
from daemon.fleet.upkeep.archives import _put, export_place, import_place
from daemon.upkeep.import_ import import_archive
from state.errors import ConflictError, DreamdError, FencedError, NotKeptError, QuotaError, StorageError
from state.fleet import Quotas
from state.stores.disk.workspace import contained, init_workspace
from state.stores.generations.versions import key_of
from tests.daemon.fleet.upkeep.kept import Kept


def notes_of(root: Path) -> list[str]:
    lines = (root / "memory" / "scratch.md").read_text().splitlines()
    return [line.partition(") ")[2] for line in lines if line.startswith("- [")]


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


def test_an_export_has_the_generation_and_the_inbox_while_its_holder_goes_on(fleet: Kept, tmp_path: Path) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    taken = fleet.note(place, "taken")
    fleet.commit(place, "tea", "taken", taken=(taken,))
    at = datetime(2026, 4, 1, 12, tzinfo=UTC)
    fleet.note(place, "coffee", at=at.isoformat())
    fleet.note(place, "cake")
    lease = fleet.lease(place)
    fleet.begin(lease, "of a holder that died then", "coffee", at=at)
    before = fleet.database.rows("SELECT * FROM workspaces")
    file = tmp_path / "notes.db"
    with own_folder(fleet.config(), os.environ, "upkeep") as own:
        done = export_place(fleet.connections, fleet.config(), place, file, own)
        assert (done.generation, done.inbox, done.archive.path) == (2, 1, str(file))
    assert below(tmp_path / "own" / "upkeep-1") == ["lock"]
    import_archive(file, tmp_path / "here")
    assert notes_of(tmp_path / "here") == ["tea", "taken", "of a holder that died then", "coffee", "cake"]
    assert fleet.database.rows("SELECT * FROM workspaces") == before
    assert file.stat().st_mode & 0o777 == 0o600
    assert below(tmp_path / "state") == []


def test_a_workspace_that_was_never_committed_can_be_exported(fleet: Kept, tmp_path: Path) -> None:
    place = fleet.place(fleet.tenant("acme"), "notes")
    fleet.note(place, "coffee")
    with own_folder(fleet.config(), os.environ, "upkeep") as own:
        done = export_place(fleet.connections, fleet.config(), place, tmp_path / "file", own)
    assert done.generation == 0
    import_archive(tmp_path / "file", tmp_path / "here")
    assert notes_of(tmp_path / "here") == ["coffee"]


def test_what_nobody_can_read_in_the_inbox_holds_up_no_export(fleet: Kept, tmp_path: Path) -> None:
    place = fleet.place(fleet.tenant("acme"), "notes")
    for body in ("[]", "{}", '{"text": 5, "importance": 1}'):
        fleet.put(place, body=body)
    fleet.note(place, "coffee")
    with own_folder(fleet.config(), os.environ, "upkeep") as own:
        assert export_place(fleet.connections, fleet.config(), place, tmp_path / "file", own).inbox == 1
    import_archive(tmp_path / "file", tmp_path / "here")
    assert notes_of(tmp_path / "here") == ["coffee"]
    assert fleet.waiting(place) == 4


def test_who_took_an_empty_workspace_has_it_no_more_when_it_is_imported(fleet: Kept, tmp_path: Path) -> None:
    place = fleet.place()
    lease = fleet.lease(place)
    init_workspace(contained(tmp_path / "import"))
    assert _put(fleet.connections, place, tmp_path / "import")[0] == 1
    with pytest.raises(NotKeptError):
        fleet.leases.waiting(lease)
    with pytest.raises(FencedError):
        fleet.begin(lease, "by its former holder", number=1)
    with pytest.raises(ConflictError):
        _put(fleet.connections, place, tmp_path / "import")


def test_an_import_takes_no_workspace_that_holds_something(fleet: Kept, tmp_path: Path) -> None:
    fleet.live()
    tenant = fleet.tenant("acme")
    full, empty, waits = (fleet.place(tenant, name) for name in ("full", "empty", "waits"))
    fleet.commit(full, "tea")
    fleet.note(waits, "coffee")
    file = tmp_path / "file"
    with own_folder(fleet.config(), os.environ, "upkeep") as own:
        export_place(fleet.connections, fleet.config(), full, file, own)
    for name in ("full", "waits"):
        with own_folder(fleet.config(), os.environ, "upkeep") as own, pytest.raises(ConflictError):
            import_place(fleet.connections, tenant, name, file, own)
    assert fleet.places.find(tenant.id, "full").generation == 1
    with own_folder(fleet.config(), os.environ, "upkeep") as own:
        import_place(fleet.connections, tenant, "empty", file, own)
    assert fleet.places.find(tenant.id, "empty").place == empty


def test_what_cannot_be_imported_makes_no_workspace(fleet: Kept, tmp_path: Path) -> None:
    tenant = fleet.tenant("acme")
    (tmp_path / "text").write_text("no archive")
    for file in (tmp_path / "text", tmp_path / "nowhere"):
        with own_folder(fleet.config(), os.environ, "upkeep") as own, pytest.raises(DreamdError):
            import_place(fleet.connections, tenant, "notes", file, own)
    fleet.live()
    fleet.commit(fleet.place(tenant, "one"), "tea")
    fleet.tenants.set_quotas(tenant, Quotas(workspaces=1))
    one = fleet.places.find(tenant.id, "one").place
    with own_folder(fleet.config(), os.environ, "upkeep") as own:
        export_place(fleet.connections, fleet.config(), one, tmp_path / "file", own)
    with own_folder(fleet.config(), os.environ, "upkeep") as own, pytest.raises(QuotaError):
        import_place(fleet.connections, tenant, "notes", tmp_path / "file", own)
    assert [found.place.name for found in fleet.places.all(tenant.id)] == ["one"]


def test_nothing_older_than_what_was_acknowledged_is_exported(fleet: Kept, tmp_path: Path) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    for text in ("tea", "coffee"):
        fleet.commit(place, text)
    fleet.objects.delete([key_of(place.prefix, 2)])
    with (
        own_folder(fleet.config(), os.environ, "upkeep") as own,
        pytest.raises(StorageError, match="000000000002: it is missing, the newest there is 1"),
    ):
        export_place(fleet.connections, fleet.config(), place, tmp_path / "file", own)
    assert not (tmp_path / "file").exists()
