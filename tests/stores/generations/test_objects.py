"""The object store: new objects are new, and what is wrong is said."""

from pathlib import Path

import pytest

from state.errors import ConfigError, ConflictError, NotFoundError, StorageError, UnreachableError, UsageError
from state.stores.generations.objects import Objects, open_objects
from tests.support.s3 import S3


def test_an_object_never_changes_whoever_writes_it_again(objects: Objects) -> None:
    for _ in range(2):
        objects.put("1/2/generations/a", b"first")
    with pytest.raises(ConflictError):
        objects.put("1/2/generations/a", b"other")
    assert objects.get("1/2/generations/a") == b"first"
    assert len([*objects.list("1/2")]) == 1


def test_what_is_missing_is_not_found_and_deleting_it_is_done(objects: Objects) -> None:
    with pytest.raises(NotFoundError):
        objects.get("a/none")
    objects.delete(["a/none"])
    assert list(objects.list("a")) == []


def test_a_listing_is_of_one_prefix_alone(objects: Objects) -> None:
    for key in ("1/2/x", "1/2/deep/y", "1/22/z"):
        objects.put(key, key.encode())
    found = {one.key: one for one in objects.list("1/2")}
    assert set(found) == {"1/2/x", "1/2/deep/y"}
    assert found["1/2/x"].size == 5
    objects.delete(found)
    assert [one.key for one in objects.list("1")] == ["1/22/z"]


@pytest.mark.parametrize("key", ["../out", "a/../../out", "/etc/x", "a//b", "a/.", "", "a\0b"])
def test_no_key_leads_out_of_a_folder(folder_store: Objects, key: str) -> None:
    with pytest.raises(UsageError):
        folder_store.put(key, b"x")
    with pytest.raises(UsageError):
        folder_store.get(key)


def test_objects_in_a_folder_are_their_owners_alone(folder_store: Objects, tmp_path: Path) -> None:
    folder_store.put("1/2/parts/a", b"x")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "store").rglob("*")}
    assert modes == {"1": 0o700, "2": 0o700, "parts": 0o700, "a": 0o600}


def test_a_folder_that_is_away_is_not_a_store_without_objects(folder_store: Objects, tmp_path: Path) -> None:
    folder_store.put("a/b", b"x")
    (tmp_path / "store").rename(tmp_path / "away")
    asked = (
        lambda: folder_store.get("a/b"),
        lambda: folder_store.put("a/c", b"x"),
        lambda: list(folder_store.list("a")),
    )
    for ask in asked:
        with pytest.raises(UnreachableError):
            ask()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("url", ["store", "http://x/y", "s3:///x", "file://host/x", "", "s3://b/p?x=1"])
def test_what_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        open_objects(url, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})


def test_without_keys_nobody_is_asked_for_them() -> None:
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY not set"):
        open_objects("s3://bucket/x", {})
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL"):
        open_objects(
            "s3://bucket/x",
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "nonsense"},
        )


def test_a_bucket_that_is_none_and_keys_that_are_wrong_are_told(s3: S3) -> None:
    with pytest.raises(StorageError, match="no such bucket"):
        open_objects("s3://nowhere/x", s3.options).put("a", b"x")
    wrong = open_objects(s3.url, {**s3.options, "AWS_ACCESS_KEY_ID": "AKIAWRONG"})
    with pytest.raises(StorageError, match="refused"):
        wrong.get("a")
