"""Pages of a damaged SQLite file, read without SQLite: the file itself, and above it what its log (-wal) holds.

Every frame of the log is checked by itself: SQLite stops at the first bad one, here those behind it still count. A
page is given as it was last written; one whose last image in the log is damaged, as it was before (it is `stale`).
The format is that of sqlite.org/fileformat2.html.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack_from

from state.stores.disk.syscalls import storage_errors

HEADER = b"SQLite format 3\0"
_SIZES = (4096, 1024, 8192, 16384, 32768, 65536, 512, 2048)
_LOG_HEADER = 32
_FRAME_HEADER = 24
_MAGIC = (0x377F0682, 0x377F0683)
_KINDS = (2, 5, 10, 13)
_AS_GOOD = 0.75  # the share of pages that begin as one, of half the right size, is about half of the best


@dataclass(slots=True)
class Pages:
    """The pages by number, from 1 on. `damage` describes what is wrong with the file as such."""

    size: int
    count: int
    main: bytes | mmap
    images: dict[int, bytes] = field(default_factory=dict)
    stale: set[int] = field(default_factory=set)
    damage: list[str] = field(default_factory=list)
    has_header: bool = False

    def get(self, number: int) -> bytes | None:
        """The page, padded with zeros when the file ends in it; None when the file ends before it."""
        if number in self.images:
            return self.images[number]
        start = (number - 1) * self.size
        if not 0 < number <= self.count or start >= len(self.main):
            return None
        return bytes(self.main[start : start + self.size]).ljust(self.size, b"\0")

    def image(self) -> Iterator[bytes]:
        """The whole file as it is after its log; what is missing is zeros."""
        for number in range(1, self.count + 1):
            yield self.get(number) or bytes(self.size)

    def schema(self) -> int:
        """The schema's number (`user_version`) of the header; 0 when it cannot be read."""
        first = self.get(1) or b""
        return int(unpack_from(">I", first, 60)[0]) if first[:16] == HEADER else 0

    def free(self) -> tuple[set[int], bool]:
        """The pages of the free list, and whether that list is consistent."""
        first = self.get(1) or b""
        if first[:16] != HEADER:
            return set(), False
        trunk, total = unpack_from(">II", first, 32)
        found: set[int] = set()
        while trunk:
            page = self.get(trunk)
            if page is None or trunk in found:
                return found, False
            found.add(trunk)
            trunk, entries = unpack_from(">II", page)
            if entries > self.size // 4 - 2:
                return found, False
            leaves = unpack_from(f">{entries}I", page, 8)
            if any(not 1 < leaf <= self.count or leaf in found for leaf in leaves):
                return found, False
            found.update(leaves)
        return found, len(found) == total


def open_pages(main: bytes | mmap, log: bytes) -> Pages:
    """The pages of this file and of its log, either of which may be empty or anything."""
    damage: list[str] = []
    size = _page_size(main, log)
    has_header = main[:16] == HEADER and _size_of(main) == size
    if main and (not has_header or not _is_ours(main)):
        damage.append("the header is damaged")
    if len(main) % size:
        damage.append("it ends in the middle of a page")
    frames = _frames(log, size, damage)
    images, stale, committed = _images(frames, size)
    present = len(main) // size + bool(len(main) % size)
    declared = unpack_from(">I", main, 28)[0] if has_header and len(main) >= 32 else present
    if committed is None and main[24:28] == main[92:96] and declared > present:
        damage.append(f"it has {present} of {declared} pages")
    count = max(present, committed or 0, *images, 0)
    return Pages(size, count, main, images, stale, damage, has_header or 1 in images)


def read_pages(database: Path, log: Path) -> Pages:
    """The pages of a database that nobody writes; a file that is missing is an empty one."""
    with storage_errors(log):
        frames = log.read_bytes() if log.is_file() else b""
    with storage_errors(database):
        if not database.is_file() or not database.stat().st_size:
            return open_pages(b"", frames)
        with database.open("rb") as file:
            return open_pages(mmap(file.fileno(), 0, access=ACCESS_READ), frames)


def _page_size(main: bytes | mmap, log: bytes) -> int:
    if main[:16] == HEADER and (size := _size_of(main)):
        return size
    if len(log) >= _LOG_HEADER and unpack_from(">I", log)[0] in _MAGIC and unpack_from(">I", log, 8)[0] in _SIZES:
        return int(unpack_from(">I", log, 8)[0])
    # Where pages begin, a page of the right size begins, and so does nearly every one of a multiple of it.
    begins = {size: [main[at] in _KINDS for at in range(size, len(main), size)] for size in sorted(_SIZES[:5])}
    shares = {size: sum(kinds) / len(kinds) for size, kinds in begins.items() if any(kinds)}
    return next((size for size, share in shares.items() if share >= _AS_GOOD * max(shares.values())), _SIZES[0])


def _size_of(main: bytes | mmap) -> int:
    if len(main) < 100:
        return 0
    size = unpack_from(">H", main, 16)[0]
    size = 65536 if size == 1 else size
    return size if size in _SIZES else 0


def _is_ours(main: bytes | mmap) -> bool:
    """Whether the header has the values of every database that dreamd creates."""
    form, vacuum, encoding = (unpack_from(">I", main, at)[0] for at in (44, 52, 56))
    fractions = main[20:24] == b"\0\x40\x20\x20"
    return main[18] in (1, 2) and main[19] in (1, 2) and fractions and form <= 4 and not vacuum and encoding <= 1


@dataclass(frozen=True, slots=True)
class _Frame:
    page: int
    committed: int
    sound: bool
    image: bytes


def _frames(log: bytes, size: int, damage: list[str]) -> list[_Frame]:
    """The frames of the log's present generation, each checked from the sum that stands in the one before it."""
    if len(log) < _LOG_HEADER + _FRAME_HEADER:
        return []
    magic, _, declared, _, *salts, sum0, sum1 = unpack_from(">8I", log)
    order = ">" if magic == _MAGIC[1] else "<"
    ok = magic in _MAGIC and declared == size and _sums(log[:24], order, (0, 0)) == (sum0, sum1)
    if not ok:
        damage.append("the header of its log is damaged")
        salts = list(unpack_from(">II", log, _LOG_HEADER + 8))
        order = "<"
    before: tuple[int, int] = (sum0, sum1)
    frames = []
    for at in range(_LOG_HEADER, len(log) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        page, committed, *own, sum0, sum1 = unpack_from(">6I", log, at)
        image = log[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
        summed = _sums(image, order, _sums(log[at : at + 8], order, before))
        before = (sum0, sum1)
        frames.append(_Frame(page, committed, own == salts and summed == before, image))
    while frames and not frames[-1].sound:  # of an earlier generation, or written when the process died
        frames.pop()
    last = max((at for at, frame in enumerate(frames) if frame.committed), default=-1)
    bad = sum(not frame.sound for frame in frames[: last + 1])
    if bad:
        damage.append(f"{bad} of {last + 1} frames of its log are damaged")
    return frames[: last + 1]


def _sums(block: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    one, other = before
    words = unpack_from(f"{order}{len(block) // 4}I", block)
    for at in range(0, len(words), 2):
        one = (one + words[at] + other) & 0xFFFFFFFF
        other = (other + words[at + 1] + one) & 0xFFFFFFFF
    return one, other


def _images(frames: list[_Frame], size: int) -> tuple[dict[int, bytes], set[int], int | None]:
    """The last sound image of each page; those of which a later one is damaged; how many pages there are."""
    images: dict[int, bytes] = {}
    stale: set[int] = set()
    committed = None
    for frame in frames:
        if not frame.sound:
            # Its page number may be wrong as well; then one page too many is trusted less.
            stale.add(frame.page)
            continue
        if 0 < frame.page <= (1 << 40) // size:
            images[frame.page] = frame.image
            stale.discard(frame.page)
        committed = frame.committed or committed
    return images, stale, committed
