"""Objects: a store of whole objects, in a folder or in an S3 bucket (through obstore).

The object of a key never changes: the store itself refuses a second one (`If-None-Match`), whoever writes it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore import exceptions
from obstore.store import S3Store

from state.errors import ConfigError, ConflictError, NotFoundError, StorageError, UnreachableError, UsageError
from state.stores.disk.disk import Disk, below, opened
from state.stores.disk.syscalls import System, storage_errors

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_LONGEST_REASON = 300
_DELETED_AT_ONCE = 1_000
# An object is one request, as only that can be conditional; a large one takes its time. It is retried for 20 seconds.
_CLIENT: "ClientConfig" = {"timeout": timedelta(seconds=20), "connect_timeout": timedelta(seconds=3)}
_RETRIES: "RetryConfig" = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing shows it."""

    key: str
    size: int


class Objects(Protocol):
    """A store of objects. Keys are names separated by slashes.

    Every method raises UnreachableError if the store cannot be reached in half a minute, and StorageError if it
    refuses.
    """

    def put(self, key: str, content: bytes) -> None:
        """Create the object; it is durable when this returns. Raise ConflictError if the key has another content."""

    def get(self, key: str) -> bytes:
        """Return the whole object. Raise NotFoundError."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete these objects; missing ones are no error."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield every object below the prefix (a folder of keys; empty: all), including killed writers' leftovers.

        Objects below one prefix come one after another.
        """


def open_objects(url: str, options: Mapping[str, str]) -> Objects:
    """Return the store at `file:///FOLDER`, a plain absolute path, or `s3://BUCKET/PREFIX`.

    `options` are the environment variables for S3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
    AWS_REGION, AWS_ENDPOINT_URL. A missing folder is created; nothing else is read or written. Raise ConfigError.
    """
    if url.startswith("/"):
        return FolderObjects(Path(url))
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        return FolderObjects(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc and not parts.query and not parts.fragment:
        return S3Objects(parts.netloc, parts.path.strip("/"), options)
    raise ConfigError(
        f"{url[:200]!r} is no object store", "write file:///FOLDER (of a disk that all share) or s3://BUCKET/PREFIX"
    )


class FolderObjects:
    """Objects in a folder, on one machine's disk or one shared by all machines; a missing folder is created.

    An object gets its name once its file is synced, by a link that fails if the name is taken; then the folder is
    synced. (obstore's local store syncs nothing: a power failure might lose an acknowledged generation.)
    """

    def __init__(self, root: Path, system: System | None = None) -> None:
        try:
            with storage_errors(root):
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except NotFoundError as error:  # for example below /proc
            raise ConfigError(f"{root}: no folder can be made there", "set fleet.objects to another one") from error
        self._root = Path(os.path.realpath(root))
        self._disk = Disk(self._root, system)

    def put(self, key: str, content: bytes) -> None:
        path = self._path(key)
        self._require_root()
        for folder in reversed(path.relative_to(self._root).parents[:-1]):
            self._disk.make_folder(self._root / folder)
        try:
            self._disk.write_new(path, content)
        except FileExistsError:
            _require_same(self, key, content)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            with storage_errors(path), opened(self._disk.target(path)) as file:
                return file.read()
        except NotFoundError:
            self._require_root()
            raise NotFoundError(f"there is no object {key}") from None

    def delete(self, keys: Iterable[str]) -> None:
        folders = set()
        for key in keys:
            path = self._path(key)
            with storage_errors(path), suppress(FileNotFoundError):
                self._disk.system.unlink(self._disk.target(path.parent) / path.name)
                folders.add(path.parent)
        for folder in sorted(folders):
            self._disk.fsync_folder(folder)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._require_root()
        start = self._path(prefix) if prefix else self._root
        with storage_errors(start):
            for path in below(start):
                with suppress(FileNotFoundError):
                    if not path.is_dir():
                        yield StoredObject(str(path.relative_to(self._root)), path.lstat().st_size)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not all(parts) or {".", ".."} & {*parts} or "\0" in key:
            raise UsageError(f"{key[:200]!r} is no key of an object", "a key has names with slashes between them")
        return self._root.joinpath(*parts)

    def _require_root(self) -> None:
        """Raise UnreachableError for an unmounted shared disk, which must not look like an empty store."""
        if not self._root.is_dir():
            raise UnreachableError(f"the folder of the object store is away: {self._root}", "mount it again")


class S3Objects:
    """Objects in a bucket below a prefix. Raise ConfigError without credentials or for a malformed endpoint.

    Credentials are required: without them the library would ask a cloud machine's metadata service for its rights.
    """

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        if missing := [name for name in _KEYS if not options.get(name)]:
            raise ConfigError(f"s3://{bucket}: {' and '.join(missing)} not set", "set what the bucket is opened by")
        self._name = f"s3://{bucket}/{prefix}".rstrip("/")
        endpoint = options.get("AWS_ENDPOINT_URL", "")
        if endpoint and (urlsplit(endpoint).scheme not in {"http", "https"} or not urlsplit(endpoint).hostname):
            raise ConfigError(f"AWS_ENDPOINT_URL {endpoint[:200]!r} is no address", "write http(s)://HOST:PORT")
        config: S3Config = {
            "access_key_id": options[_KEYS[0]],
            "secret_access_key": options[_KEYS[1]],
            "region": options.get("AWS_REGION") or options.get("AWS_DEFAULT_REGION") or "us-east-1",
        }
        if endpoint:
            config["endpoint"] = endpoint
        if token := options.get("AWS_SESSION_TOKEN"):
            config["session_token"] = token
        client: ClientConfig = {**_CLIENT, "allow_http": endpoint.startswith("http://")}
        try:
            self._store = S3Store(
                bucket, prefix=prefix or None, config=config, client_options=client, retry_config=_RETRIES
            )
        except (exceptions.BaseError, ValueError) as error:
            advice = "check 'fleet.objects' and AWS_ENDPOINT_URL"
            raise ConfigError(f"s3://{bucket}: {_reason(error)}", advice) from None

    def put(self, key: str, content: bytes) -> None:
        with self._errors(key):
            try:
                obstore.put(self._store, key, content, mode="create", use_multipart=False)
            except exceptions.AlreadyExistsError:  # perhaps by a try whose answer was lost
                _require_same(self, key, content)

    def get(self, key: str) -> bytes:
        with self._errors(key):
            return bytes(obstore.get(self._store, key).bytes())

    def delete(self, keys: Iterable[str]) -> None:
        todo = list(keys)
        for start in range(0, len(todo), _DELETED_AT_ONCE):
            with self._errors(todo[start]):
                obstore.delete(self._store, todo[start : start + _DELETED_AT_ONCE])

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with self._errors(prefix):
            for rows in obstore.list(self._store, prefix):
                for row in rows:
                    yield StoredObject(row["path"], row["size"])

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StorageError(f"{self._name}: there is no such bucket", "make it, or name another") from None
            raise NotFoundError(f"there is no object {key} in {self._name}") from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise StorageError(
                f"{self._name}: {key} was refused ({_reason(error)})",
                "give the key of AWS_ACCESS_KEY_ID the rights to read, write, list and delete there",
            ) from None
        except exceptions.BaseError as error:
            reason = _reason(error)
            if "non-2xx status code: 4" in reason:
                raise StorageError(f"{self._name}: {key}: {reason}", "check 'fleet.objects'") from None
            raise UnreachableError(f"{self._name} cannot be reached ({reason})", "try again soon") from None


def _require_same(objects: Objects, key: str, content: bytes) -> None:
    """Raise ConflictError if the object of this key has another content."""
    if objects.get(key) != content:
        raise ConflictError(f"there is another object {key}", "nothing of this one is written")


def _reason(error: Exception) -> str:
    """Return the beginning of the library's message, without its debug part."""
    return " ".join(str(error).partition("\n\nDebug")[0].split())[:_LONGEST_REASON]
