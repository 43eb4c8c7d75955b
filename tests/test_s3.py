"""The object store of the tests is what they take it for: durable, conditional, of one mind under many clients."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PermissionDeniedError
from obstore.store import S3Store

from tests.support.s3 import S3

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_PATIENCE = 60.0
_MIB = 1 << 20


def client(s3: S3, **others: str) -> S3Store:
    options: ClientConfig = {"allow_http": True, "timeout": "20s", "connect_timeout": "1s"}
    return S3Store.from_url(
        s3.url,
        client_options=options,
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=20)},
        **{"virtual_hosted_style_request": False, **s3.options, **others},  # type: ignore[arg-type]
    )


def contents(store: S3Store) -> dict[str, bytes]:
    names = [row["path"] for batch in obstore.list(store) for row in batch]
    return {name: bytes(obstore.get(store, name).bytes()) for name in names}


@pytest.mark.full
def test_a_server_that_is_killed_during_puts_keeps_what_it_acknowledged(s3: S3) -> None:
    store, acknowledged, enough = client(s3), dict[str, bytes](), threading.Event()

    def put() -> None:
        with suppress(BaseError):
            for number in range(100_000):
                name, body = f"object-{number}", bytes([number % 256]) * 20_000
                obstore.put(store, name, body)
                acknowledged[name] = body
                if number == 20:
                    enough.set()

    putting = threading.Thread(target=put)
    putting.start()
    assert enough.wait(_PATIENCE)
    s3.kill()
    putting.join(_PATIENCE)
    s3.start()
    kept = contents(store)
    assert {name: kept.get(name) for name in acknowledged} == acknowledged
    assert len(kept) <= len(acknowledged) + 1


@pytest.mark.full
def test_all_that_was_done_is_there_after_a_kill_with_its_times(s3: S3) -> None:
    store = client(s3)
    large = bytes(range(256)) * (12 * _MIB // 256)
    obstore.put(store, "gone", b"1")
    obstore.put(store, "many/1", b"1")
    obstore.put(store, "many/2", b"2")
    obstore.put(store, "large", large, use_multipart=True, chunk_size=5 * _MIB)
    obstore.copy(store, "large", "copy")
    obstore.delete(store, "gone")
    obstore.delete(store, ["many/1", "many/2"])
    obstore.put(store, "over", b"old")
    obstore.put(store, "over", b"new")
    before = [row for batch in obstore.list(store) for row in batch]
    for _ in range(2):
        s3.kill()
        s3.start()
        assert [row for batch in obstore.list(store) for row in batch] == before
    assert contents(store) == {"copy": large, "large": large, "over": b"new"}
    assert (
        bytes(obstore.get_range(store, "large", start=5 * _MIB - 2, length=4)) == large[5 * _MIB - 2 : 5 * _MIB + 2]
    )


@pytest.mark.full
def test_half_a_record_was_not_acknowledged(s3: S3) -> None:
    store = client(s3)
    obstore.put(store, "one", b"1")
    obstore.put(store, "two", b"2")
    s3.kill()
    log = Path(str(s3._folder), "log")
    log.write_bytes(log.read_bytes()[:-1])
    s3.start()
    assert contents(store) == {"one": b"1"}
    obstore.put(store, "three", b"3")
    s3.kill()
    s3.start()
    assert contents(store) == {"one": b"1", "three": b"3"}


def test_of_those_who_create_an_object_at_once_one_wins(s3: S3) -> None:
    store, barrier = client(s3), threading.Barrier(8)

    def create(number: int) -> int | None:
        barrier.wait(_PATIENCE)
        try:
            obstore.put(store, "decided", f"{number}".encode(), mode="create")
        except AlreadyExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(create, range(8)) if number is not None]
    assert [f"{number}".encode() for number in winners] == [contents(store)["decided"]]
    s3.kill()
    s3.start()
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "decided", b"late", mode="create")


def test_a_stranger_is_refused_and_a_server_that_is_away_does_not_answer(s3: S3) -> None:
    with pytest.raises(PermissionDeniedError):
        obstore.put(client(s3, AWS_ACCESS_KEY_ID="AKIASTRANGER"), "one", b"1")
    s3.kill()
    with pytest.raises(GenericError):
        obstore.put(client(s3), "one", b"1")
