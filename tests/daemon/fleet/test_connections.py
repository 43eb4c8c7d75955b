"""How a process of the fleet begins: which store, whose folder, and what it says when something is missing."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from daemon.config.settings import Config
from daemon.fleet.connections import adopt_store, connect, connect_to_recover, isolate, open_database, own_folder
from daemon.fleet.serving import address_for_others, retry_until_reachable
from state.errors import ConfigError, StorageError
from state.stores.fleet.database import migrate
from state.stores.fleet.registry import Tenants
from state.stores.generations.guard import require_fencing
from state.stores.generations.objects import FolderObjects
from tests.support.partition import Partition
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.running import Caller


def configured(**fleet: Any) -> Config:
    return Config.model_validate({"fleet": {name: str(value) for name, value in fleet.items()}})


def migrated(url: str) -> str:
    migrate(url, str(uuid4()))
    return url


def test_a_store_belongs_to_one_fleet(postgres: Postgres, tmp_path: Path) -> None:
    first, second = migrated(postgres.new_database()), migrated(postgres.new_database())
    for _ in range(2):
        connect(configured(database=first, objects=tmp_path / "objects"), {}).close()
    with pytest.raises(ConfigError, match="another fleet's"):
        connect(configured(database=second, objects=tmp_path / "objects"), {})


def test_two_empty_stores_are_not_one_fleet_until_one_is_adopted(postgres: Postgres, tmp_path: Path) -> None:
    config = configured(database=migrated(postgres.new_database()), objects=tmp_path / "objects")
    with closing(connect(config, {})) as both:
        Tenants(both.database).add("acme")
    elsewhere = configured(database=config.fleet.database, objects=tmp_path / "empty")
    for _ in range(2):
        with pytest.raises(ConfigError, match="is not the object store of this fleet"):
            connect(elsewhere, {})
        assert [*(tmp_path / "empty").iterdir()] == []
        connect_to_recover(elsewhere, {}).close()
    with closing(connect_to_recover(elsewhere, {})) as both:
        adopt_store(both, elsewhere.fleet.objects)
    connect(elsewhere, {}).close()
    with pytest.raises(ConfigError, match="is not the object store of this fleet"):
        connect(config, {})


def test_a_store_that_overwrites_what_is_there_is_refused(tmp_path: Path) -> None:
    class Overwrites(FolderObjects):
        def put(self, key: str, content: bytes) -> None:
            self.delete([key])
            super().put(key, content)

    require_fencing(FolderObjects(tmp_path / "one"))
    with pytest.raises(ConfigError, match="ignores 'If-None-Match"):
        require_fencing(Overwrites(tmp_path / "other"))
    assert [path for one in ("one", "other") for path in (tmp_path / one).iterdir()] == []


def test_who_starts_while_the_database_is_away_waits_for_it(postgres: Postgres, tmp_path: Path) -> None:
    url = migrated(postgres.new_database())
    with Partition(postgres.port) as door:
        config = configured(database=door.through(url), objects=tmp_path / "objects")
        door.refuse()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(retry_until_reachable, lambda: connect(config, {}))
            time.sleep(1.5)
            assert not waiting.done()
            door.heal()
            waiting.result(30).close()


def test_a_wrong_password_is_told_at_once_without_it(postgres: Postgres, database_url: str) -> None:
    wrong = database_url.replace("://dreamd:", "://dreamd:wrong-")
    with pytest.raises(ConfigError, match="user or the password") as caught:
        open_database(configured(database=wrong))
    assert "wrong-" not in str(caught.value)


def test_folders_that_cannot_be_are_told(postgres: Postgres) -> None:
    with pytest.raises(ConfigError, match=r"/proc/nope/objects: no folder can be made there; set fleet\.objects"):
        connect(configured(database=migrated(postgres.new_database()), objects="/proc/nope/objects"), {})
    with pytest.raises(StorageError, match="/proc/nope: no folder can be made there; name another one"):
        own_folder(configured(folder="/proc/nope/own"), {}, "process").__enter__()


def test_processes_of_one_machine_have_folders_of_their_own(tmp_path: Path) -> None:
    config = configured(folder=tmp_path / "own")
    with ExitStack() as others:
        with own_folder(config, {}, "process") as one:
            two, door = (others.enter_context(own_folder(config, {}, kind)) for kind in ("process", "upkeep"))
            assert [folder.name for folder in (one, two, door)] == ["process-1", "process-2", "upkeep-1"]
            (one / "left").mkdir()
        with own_folder(config, {}, "process") as again:
            assert again.name == "process-1"
            assert [path.name for path in again.iterdir()] == ["lock"]


def test_nothing_of_the_operators_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from daemon.config.paths import global_root
    from daemon.workspace.adoption import init_global_workspace

    operator = tmp_path / "operator"
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(operator / name.lower()))
    theirs = init_global_workspace(os.environ)
    assert theirs.root.exists()
    isolate(tmp_path / "process-1", os.environ)
    assert not global_root(os.environ).exists()
    assert global_root(os.environ).is_relative_to(tmp_path / "process-1")
    assert os.environ["HOME"] == str(tmp_path / "process-1" / "home")


def test_others_reach_a_process_where_its_machine_is() -> None:
    own = {"http://0.0.0.0:7": "http://10.1.2.3:7", "http://[::]:7": "http://10.1.2.3:7", "http://10.9.9.9:7": ""}
    for listens, reached in own.items():
        assert address_for_others(listens, "10.1.2.3", "host") == (reached or listens)
    assert address_for_others("http://[::]:7", "fd00::2", "host") == "http://[fd00::2]:7"
    # The database is on this machine.
    assert address_for_others("http://0.0.0.0:7", "127.0.0.1", "host") == "http://host:7"
    assert address_for_others("http://127.0.0.1:7", "127.0.0.1", "host") == "http://127.0.0.1:7"
    with pytest.raises(
        ConfigError, match=r"no other machine of the fleet reaches http://127.0.0.1:7; set fleet\.host"
    ):
        address_for_others("http://127.0.0.1:7", "10.1.2.3", "host")


def test_the_commands_say_what_is_missing(
    dreamd: Caller, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # a process sets them for itself, which is this one
    monkeypatch.setenv("DREAMD_FLEET__FOLDER", str(tmp_path / "own"))
    for command, said in (("fleet serve", "fleet.objects is not set"), ("migrate", "no database is named")):
        ended = dreamd(*command.split())
        assert ended.status != 0
        assert said in ended.err
    url = postgres.new_database()
    monkeypatch.setenv("DREAMD_FLEET__DATABASE", url)
    monkeypatch.setenv("DREAMD_FLEET__OBJECTS", str(tmp_path / "objects"))
    assert "dreamd migrate" in dreamd("fleet", "serve").err
    for _ in range(2):
        ended = dreamd("migrate")
        assert ended.status == 0, ended.err
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("DREAMD_FLEET__PORT", str(taken.getsockname()[1]))
        ended = dreamd("fleet", "serve")
    assert ended.status != 0
    assert "Traceback" not in ended.err
    assert "dreamd: " in ended.err
    away = url.replace(f":{postgres.port}/", f":{free_port()}/")
    ended = dreamd("migrate", "--database", away)
    assert ended.status != 0
    assert "cannot be asked" in ended.err


def test_without_the_extra_it_says_how_to_install_it(
    dreamd: Caller, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "psycopg" else object())
    for words in (("migrate", "--database", database_url), ("fleet", "workspace", "remove", "acme", "one", "--yes")):
        ended = dreamd(*words)
        assert ended.status != 0
        assert "pip install 'dreamd[fleet]'" in ended.err
