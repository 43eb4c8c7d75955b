"""Generations: the committed states of one workspace in the object store, each a manifest over packs of chunks.

Objects are written once and never changed; a manifest is written after the packs that it refers to, and is nothing
until the fleet's database names it. So whatever cuts a `put` off leaves objects that nobody refers to, for `sweep`.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from state.errors import ConflictError, NotFoundError, StorageError
from state.fleet.generation import FORMAT, Chunk, Manifest
from state.stores.disk.syscalls import System
from state.stores.generations import placing, snapshot
from state.stores.generations.manifests import decoded, encoded, made_by, manifest_key, pack_key
from state.stores.generations.objects import Objects
from state.stores.generations.packer import PACK_BYTES, Packer, Reading

# Beyond so many packs, and those that a large workspace needs, it is written anew.
_MOST_PACKS = 64


class Generations:
    """The generations of one workspace under its prefix. For one thread at a time.

    It remembers the files that it has read, so that `put` reads what has changed since.
    """

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix.strip("/")
        self._readings: tuple[Path, dict[str, Reading]] | None = None

    def put(
        self,
        folder: Path,
        previous: Manifest | None,
        number: int,
        fence: int,
        now: datetime,
        *,
        whole: bool = False,
    ) -> tuple[str, Manifest]:
        """Write the folder as it is now as a generation; returns its key with its manifest.

        Chunks that are in packs of `previous` are referred to, unless `whole`: then every byte is written anew, and
        no older object is needed. Never inside the commit of a dream. Raises BusyError when one came meanwhile.
        """
        folder = folder.resolve()
        older = previous if previous is not None and not whole and not is_scattered(previous) else None
        has = {chunk.digest: chunk for file in older.files for chunk in file.chunks} if older else {}
        before = self._readings[1] if self._readings is not None and self._readings[0] == folder else {}

        def write(content: bytes) -> str:
            return self._put_new(pack_key(self._prefix, number, fence, content), content)

        with Packer(has, before, write) as packer:
            snapshot.take(folder, packer)
            files, fresh = packer.finish()
        used = {chunk.pack for file in files for chunk in file.chunks}
        packs = [*(older.packs if older else ()), *fresh]
        kept = {pack.key: pack for pack in packs if pack.key in used}
        manifest = Manifest(FORMAT, number, fence, now, files, tuple(kept.values()))
        content = encoded(manifest)
        key = self._put_new(manifest_key(self._prefix, number, fence, content), content)
        self._readings = (folder, packer.readings)
        return key, manifest

    def manifest(self, key: str) -> Manifest:
        """The manifest with this key. Raises StorageError when it is missing or not what was written."""
        try:
            content = self._objects.get(key)
        except NotFoundError:
            raise StorageError(
                f"the object {key} is missing", "bring up an older generation ('dreamd fleet recover')"
            ) from None
        return decoded(content, key, self._prefix)

    def bring_up(self, folder: Path, manifest: Manifest, system: System | None = None) -> None:
        """Make the folder be this generation, as `placing.bring_up` says."""
        placing.bring_up(self._objects, folder, manifest, system)

    def keys(self) -> tuple[str, ...]:
        """The keys of every manifest in the store, the oldest first; some may never have been committed."""
        found = (one.key for one in self._objects.list(f"{self._prefix}/generations"))
        return tuple(sorted(key for key in found if made_by(key) and not key.rpartition("/")[2].startswith(".")))

    def sweep(self, keep: Iterable[Manifest], fence: int) -> int:
        """Delete each manifest but these, and each pack that none of them refers to; returns how many objects.

        `fence` is the sweeping owner's: what a later owner wrote stays, whoever sweeps.
        """
        keep = list(keep)
        generations = {(one.number, one.fence) for one in keep}
        packs = {pack.key for one in keep for pack in one.packs}
        doomed = []
        for one in self._objects.list(self._prefix):
            made = made_by(one.key)
            if made is None or made[1] > fence or one.key in packs:
                continue
            if made in generations and one.key.startswith(f"{self._prefix}/generations/"):
                continue
            doomed.append(one.key)
        self._objects.delete(doomed)
        return len(doomed)

    def erase(self) -> int:
        """Delete everything under the prefix; returns how many objects."""
        keys = [one.key for one in self._objects.list(self._prefix)]
        self._objects.delete(keys)
        return len(keys)

    def _put_new(self, key: str, content: bytes) -> str:
        # The key is bound to the content: what is there already is this very object, whose answer was lost.
        with suppress(ConflictError):
            self._objects.put_new(key, content)
        return key


def is_scattered(manifest: Manifest) -> bool:
    """Whether it is better written anew: half of its packs is needed no more, or they are too many."""
    chunks: set[Chunk] = {chunk for file in manifest.files for chunk in file.chunks}
    needed = sum(chunk.size for chunk in chunks)
    written = sum(pack.size for pack in manifest.packs)
    return 2 * needed < written or len(manifest.packs) > _MOST_PACKS + 2 * needed // PACK_BYTES


def bytes_of(manifest: Manifest) -> int:
    """How much its files hold."""
    return sum(file.size for file in manifest.files)
