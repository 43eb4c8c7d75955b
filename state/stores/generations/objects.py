"""Objects: a store of whole objects; a folder, or a bucket that speaks S3.

What lies under a key never changes: keys are bound to contents, so to write an object twice is to write it once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from state.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing tells of it."""

    key: str
    size: int
    modified: datetime


class Objects(Protocol):
    """A store of objects. Keys are names with slashes between them.

    Every method raises UnreachableError when the store cannot be reached in half a minute, and StorageError when it
    refuses.
    """

    def put(self, key: str, content: bytes) -> None:
        """Write the object, durable when this returns."""

    def get(self, key: str) -> bytes:
        """Return the whole object. Raise NotFoundError."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete these objects; one that is not there is deleted already."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Return every object below the prefix (a folder of keys; empty: all), also what a killed writer left.

        Those below one prefix follow each other.
        """


def open_objects(url: str, options: Mapping[str, str]) -> Objects:
    """Return the store at `file:///FOLDER`, at a plain absolute path, or at `s3://BUCKET/PREFIX`.

    `options` are the variables of the environment that S3 is reached by: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL. Nothing is read or written but a missing folder, which is made.
    Raise ConfigError.
    """
    if url.startswith("/"):
        return _folder(Path(url))
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        return _folder(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc and not parts.query and not parts.fragment:
        from state.stores.generations.s3_objects import S3Objects

        return S3Objects(parts.netloc, parts.path.strip("/"), options)
    raise ConfigError(
        f"{url[:200]!r} is no object store", "write file:///FOLDER (of a disk that all share) or s3://BUCKET/PREFIX"
    )


def _folder(path: Path) -> Objects:
    from state.stores.generations.folder_objects import FolderObjects

    return FolderObjects(path)
