"""Objects in a folder: of one machine, or of a disk that all machines of a fleet share.

An object has its name once its file is synced, by a link that fails if there is one; then the folder is synced. (The
local store of obstore syncs nothing, so that an acknowledged generation might be gone when the power comes back.)
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from state.errors import ConfigError, NotFoundError, UnreachableError, UsageError
from state.stores.disk.disk import Disk, below, opened
from state.stores.disk.syscalls import System, storage_errors
from state.stores.generations.objects import StoredObject


class FolderObjects:
    """The objects in a folder, which is made if it is missing."""

    def __init__(self, root: Path, system: System | None = None) -> None:
        try:
            with storage_errors(root):
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except NotFoundError as error:  # as below /proc
            raise ConfigError(f"{root}: no folder can be made there", "set fleet.objects to another one") from error
        self._root = Path(os.path.realpath(root))
        self._disk = Disk(self._root, system)

    def put(self, key: str, content: bytes) -> None:
        path = self._path(key)
        self._require_root()
        for folder in reversed(path.relative_to(self._root).parents[:-1]):
            self._disk.make_folder(self._root / folder)
        with suppress(FileExistsError):  # the same: keys are bound to contents
            self._disk.write_new(path, content)

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
                    status = path.lstat()
                    if not path.is_dir():
                        modified = datetime.fromtimestamp(status.st_mtime, UTC)
                        yield StoredObject(str(path.relative_to(self._root)), status.st_size, modified)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not all(parts) or {".", ".."} & {*parts} or "\0" in key:
            raise UsageError(f"{key[:200]!r} is no key of an object", "a key has names with slashes between them")
        return self._root.joinpath(*parts)

    def _require_root(self) -> None:
        """Raise UnreachableError for a shared disk that is not mounted: no store without objects."""
        if not self._root.is_dir():
            raise UnreachableError(f"the folder of the object store is away: {self._root}", "mount it again")
