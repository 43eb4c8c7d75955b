"""Reading: a transcript from its watermark on: new turns, the new watermark, and problems."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from daemon.ingest.formats import documents, markdown, plain, prose, records
from daemon.ingest.formats.claude_code import ClaudeCode
from daemon.ingest.formats.codex import Codex
from daemon.ingest.formats.detection import Format, detect
from daemon.ingest.formats.lines import digest_before
from daemon.ingest.formats.openai import OpenAI
from daemon.ingest.formats.place import Place
from daemon.ingest.formats.turn import Conversation, Reading, Record, Watermark, memory
from state.errors import DocumentError, NotFoundError, StorageError
from state.stores.disk.disk import opened

# A log is only appended to: the last block that was read tells whether it is still the same file. A document is
# edited anywhere, so all of it counts.
_TAIL_BYTES = 4 * 1024

_CONVERSATIONS: dict[Format, Callable[[Record, str], Conversation]] = {
    Format.CLAUDE_CODE: ClaudeCode,
    Format.CODEX: Codex,
    Format.OPENAI: OpenAI,
}
_PROSE: dict[Format, prose.Blocks] = {
    Format.MARKDOWN: markdown.blocks,
    Format.SPEECHES: plain.speeches,
    Format.PARAGRAPHS: plain.paragraphs,
}


def read_turns(path: Path, start: Watermark | None = None) -> Reading:
    """The turns of a transcript after `start`; all of them when the file is not the one that `start` was taken of.

    Reads about 16 MiB at most; while `complete` is False, call again with the watermark. A last line of JSON without
    its line end that is no whole record yet is left for the next time. Broken lines are reported and skipped. A turn
    without a time has the file's. Reading anything twice gives the same turns, hence the same crystals.

    Raises NotFoundError, StorageError (unreadable), DocumentError (a folder, binary, not UTF-8, or JSON of an unknown
    shape).
    """
    if path.is_dir():
        raise DocumentError(f"{path} is a folder", "name the files in it")
    if path.exists() and not path.is_file():
        raise DocumentError(f"{path} is no regular file", "name a transcript")
    try:
        with opened(path) as file:
            return _read(file, path, start)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist", "check the path") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error


def readings(path: Path, start: Watermark | None = None) -> Iterator[Reading]:
    """`read_turns` again and again until the end of the file is reached."""
    while True:
        reading = read_turns(path, start)
        yield reading
        if reading.complete:
            return
        start = reading.watermark


def _read(file: BinaryIO, path: Path, start: Watermark | None) -> Reading:
    kind = detect(file, path)
    if kind is Format.NOTHING_YET:
        return Reading((), Watermark())
    span = _TAIL_BYTES if kind in _CONVERSATIONS else documents.DOCUMENT_BYTES
    size = file.seek(0, 2)
    if start is None or start.bytes_read > size or digest_before(file, start.bytes_read, span) != start.digest:
        start = Watermark()
    elif start.bytes_read == size:
        return Reading((), start)
    place = Place(file, path, datetime.fromtimestamp(path.stat().st_mtime, UTC), start, span)
    if adapter := _CONVERSATIONS.get(kind):
        return records.read(place, adapter(memory(start.carry), str(path)))
    if blocks := _PROSE.get(kind):
        return prose.read(place, blocks)
    return documents.read(place)
