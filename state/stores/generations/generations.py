"""Generations: the committed states of one workspace in the object store.

Each is one object with the blocks that changed since the one before, and the names of the objects before it that hold
the rest; where that becomes long, the next holds everything. Objects are written once and never changed; one is
nothing until the fleet's database names it. So whatever cuts a `put` off leaves objects that nobody refers to, for
`sweep`.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from state.errors import ConflictError, NotFoundError, StorageError
from state.fleet.generation import Manifest, Part
from state.fleet.workspace import Lease
from state.stores.generations import snapshot
from state.stores.generations.blocks import Batch, Blocks, Reading
from state.stores.generations.manifests import (
    decoded_batch,
    decoded_manifest,
    encoded,
    made_by,
    manifest_key,
    part_key,
)
from state.stores.generations.objects import Objects
from state.stores.generations.placing import place

# Objects beyond the last whole generation, after which the next is whole.
_MOST_CHANGES = 16
# Blocks that lie in the generation's own object. Who recovers reads one of each workspace.
_INLINE_BYTES = 1024**2
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Taken:
    """A workspace as it was at one moment, to be put: its files, and what of them no object before holds."""

    folder: Path
    readings: dict[str, Reading]
    batches: list[Batch]
    before: tuple[Part, ...]


class Generations:
    """The generations of one workspace under its prefix. For one thread at a time.

    It remembers the files that it has put or brought up last, and of the next generation writes what has changed.
    """

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix.strip("/")
        self._last: tuple[Path, str, dict[str, Reading]] | None = None
        self._known: dict[str, Manifest] = {}
        self._read = ("", b"")  # the object that was read last: who asks for a generation brings it up

    def take(self, folder: Path, previous: Manifest | None, *, whole: bool = False) -> Taken:
        """Read the folder as it is now; nothing is written.

        What `previous` holds is referred to, if that is what was put from here or brought up here last, unless
        `whole`. Never inside the commit of a dream. Raise BusyError if one came meanwhile.
        """
        folder = Path(os.path.realpath(folder))
        blocks, parts = Blocks({}), tuple[Part, ...]()
        if previous is not None and self._last is not None and not whole and not _is_long(previous):
            root, key, readings = self._last
            if (root, key) == (folder, previous.key):
                blocks, parts = Blocks(readings), previous.parts
        snapshot.take(folder, blocks)
        return Taken(folder, blocks.readings, blocks.batches, parts)

    def put(self, taken: Taken, lease: Lease, now: datetime) -> Manifest:
        """Write what was taken as the generation after the lease's, durably."""
        number = lease.generation.number + 1
        *batches, last = taken.batches
        if len(last.content) > _INLINE_BYTES:
            batches, last = taken.batches, Batch()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            parts = [*pool.map(lambda batch: self._put_part(batch, number), batches)]
        files = tuple(reading.file for _, reading in sorted(taken.readings.items()))
        names = lease.place.tenant_name, lease.place.name
        manifest = Manifest(*names, number, now, files, (*taken.before, *parts))
        content = encoded(last, manifest)
        own = self._put_new(manifest_key(self._prefix, number, content), content)
        manifest = replace(manifest, parts=(*manifest.parts, own))
        self._last = taken.folder, own.key, taken.readings
        self._known[own.key] = manifest
        return manifest

    def manifest(self, key: str) -> Manifest:
        """Return the generation with this key. Raise StorageError if it is missing or not what was written."""
        if key not in self._known:
            self._read = key, self._get(key)
            self._known[key] = decoded_manifest(self._read[1], key, self._prefix)
        return self._known[key]

    def bring_up(self, folder: Path, manifest: Manifest) -> None:
        """Make the folder be this generation, as `place` says. Raise StorageError, which names the object."""
        readings = place(folder, manifest, self._batches(manifest))
        self._read = ("", b"")
        self._last = Path(os.path.realpath(folder)), manifest.key, readings

    def keys(self) -> tuple[str, ...]:
        """Return the keys of all generations in the store, the oldest first; some may never have been committed."""
        found = (one.key for one in self._objects.list(f"{self._prefix}/generations"))
        return tuple(sorted(key for key in found if made_by(key) and not key.rpartition("/")[2].startswith(".")))

    def sweep(self, keep: Iterable[Manifest], number: int) -> int:
        """Delete each object that none of these is made of; return how many.

        `number` is that of the generation that is committed: what was put for a later one stays, whoever sweeps.
        """
        needed = {part.key for one in keep for part in one.parts}
        doomed = [
            one.key
            for one in self._objects.list(self._prefix)
            if (made := made_by(one.key)) is not None and made <= number and one.key not in needed
        ]
        self._objects.delete(doomed)
        self._known = {key: one for key, one in self._known.items() if key in needed}
        return len(doomed)

    def erase(self) -> int:
        """Delete everything under the prefix; return how many objects."""
        keys = [one.key for one in self._objects.list(self._prefix)]
        self._objects.delete(keys)
        return len(keys)

    def _batches(self, manifest: Manifest) -> Iterator[Batch]:
        """Fetch the blocks in their order, some objects at once."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(manifest.parts), _AT_ONCE):
                keys = [part.key for part in manifest.parts[start : start + _AT_ONCE]]
                for key, content in zip(keys, pool.map(self._get, keys), strict=True):
                    yield decoded_batch(content, key, self._prefix)

    def _get(self, key: str) -> bytes:
        if key == self._read[0]:
            return self._read[1]
        try:
            return self._objects.get(key)
        except NotFoundError:
            raise StorageError(
                f"the object {key} is missing", "bring up an older generation ('dreamd fleet recover')"
            ) from None

    def _put_part(self, batch: Batch, number: int) -> Part:
        content = encoded(batch)
        return self._put_new(part_key(self._prefix, number, content), content)

    def _put_new(self, key: str, content: bytes) -> Part:
        # The key is bound to the content: what is there already is this very object, whose answer was lost.
        with suppress(ConflictError):
            self._objects.put_new(key, content)
        return Part(key, len(content))


def _is_long(manifest: Manifest) -> bool:
    """Return whether the next generation is to be whole: the changes since the last are many, or larger than it."""
    first = made_by(manifest.parts[0].key)
    changes = [part.size for part in manifest.parts if made_by(part.key) != first]
    return len(changes) >= _MOST_CHANGES or 2 * sum(changes) > sum(part.size for part in manifest.parts)
