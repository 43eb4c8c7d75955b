"""Reading: a transcript from its watermark on, in the format that its content shows."""

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from daemon.ingest.formats import documents, prose, records
from daemon.ingest.formats.agents import READERS, format_of
from daemon.ingest.formats.lines import Place, lines_from
from daemon.ingest.formats.turn import Reading, RecordError, Watermark
from state.errors import DocumentError, NotFoundError, StorageError
from state.stores.disk.disk import opened

_LINES = 200
_HEAD_BYTES = 64 * 1024
_MARKDOWN = {".md", ".markdown", ".mdx"}
_JSON_LINES = {".jsonl", ".ndjson"}
_NOTHING_YET, _JSON = "nothing yet", "JSON document"


def readings(path: Path, start: Watermark | None = None) -> Iterator[Reading]:
    """Yield the turns after `start`, or all of them when the file is not the one that `start` was taken of.

    Of JSON lines a reading has about 16 MiB at most, and the last one ends at the end of the file: a line without its
    end that is no whole record yet is left for the next time. A document is read whole. Broken lines are reported and
    skipped. A turn without a time has the file's. Reading anything twice gives the same turns, hence the same
    crystals.

    Raise NotFoundError, StorageError (unreadable), DocumentError (a folder, binary, too long, not UTF-8, or JSON of
    an unknown shape).
    """
    if path.is_dir():
        raise DocumentError(f"{path} is a folder", "name the files in it")
    if path.exists() and not path.is_file():
        raise DocumentError(f"{path} is no regular file", "name a transcript")
    complete = False
    while not complete:
        try:
            with opened(path) as file:
                for reading in _readings(file, path, start or Watermark()):
                    yield reading
                    complete, start = reading.complete, reading.watermark
        except FileNotFoundError as error:
            raise NotFoundError(f"{path} does not exist", "check the path") from error
        except OSError as error:
            raise StorageError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error


def _readings(file: BinaryIO, path: Path, start: Watermark) -> Iterator[Reading]:
    """Yield a reading of JSON lines, or all readings of a document."""
    kind, status = _format_of(file, path), os.fstat(file.fileno())
    place, size = Place(str(path), datetime.fromtimestamp(status.st_mtime, UTC)), status.st_size
    if kind == _NOTHING_YET:
        yield Reading((), Watermark())
        return
    content = b"" if kind in READERS else _content(file, path, size, kind)
    if start.bytes_read > size or start.digest != (
        records.digest(file, start.bytes_read)
        if kind in READERS
        else hashlib.sha256(content[: start.bytes_read]).hexdigest()
    ):
        start = Watermark()
    if start.bytes_read == size:
        yield Reading((), start)
    elif kind in READERS:
        yield records.read(file, place, start, READERS[kind][1])
    elif kind == _JSON:
        yield documents.read(content, place)
    else:
        yield from prose.read(content, place, start, kind)


def _content(file: BinaryIO, path: Path, size: int, kind: str) -> bytes:
    """Return all of a document. Raise DocumentError when it is too long: it cannot be read in part."""
    most = documents.DOCUMENT_BYTES if kind == _JSON else prose.TEXT_BYTES
    if size > most:
        advice = "write it as JSONL (one message a line), which is read in parts" if kind == _JSON else "split it"
        raise DocumentError(f"{path} is a {kind} of {size // 2**20} MiB; {most // 2**20} are read", advice)
    file.seek(0)
    return file.read(size)


def _format_of(file: BinaryIO, path: Path) -> str:
    """Return the format of an open file. Raise DocumentError for a binary file and for lines of an unknown shape."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(f"{path} is UTF-16", "convert it to UTF-8 and ingest it again")
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begins:
        return _NOTHING_YET
    json_lines = path.suffix.lower() in _JSON_LINES
    if json_lines or begins.startswith(b"{"):
        known_format = _format_of_records(file, path, must_be=json_lines)
        if known_format:
            return known_format
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise DocumentError(
            f"{path}:{line}: a NUL byte: this is no text", "ingest transcripts, Markdown or plain text"
        )
    if begins.startswith(b"{") or (begins.startswith(b"[") and begins[1:].lstrip()[:1] in (b"{", b"[", b"]", b"")):
        return _JSON
    lines = head.decode("utf-8", "replace").splitlines()[:_LINES]
    if path.suffix.lower() in _MARKDOWN or any(prose.is_heading(line) for line in lines):
        return prose.MARKDOWN
    return prose.SPEECHES if prose.is_conversation(lines) else prose.PARAGRAPHS


def _format_of_records(file: BinaryIO, path: Path, *, must_be: bool) -> str | None:
    """Return the format of the first line that is a record of a known one."""
    whole = unfinished = 0
    for line in islice(lines_from(file), _LINES):
        if not line.raw.strip():
            continue
        try:
            record = records.record_of(line)
        except RecordError:
            unfinished += not line.ended
            continue
        whole += 1
        if found := format_of(record):
            return found
    if not must_be:
        return None
    if not whole and unfinished:
        return _NOTHING_YET
    *names, last = READERS
    raise DocumentError(
        f"{path}: none of its first {_LINES} lines is a record of {', '.join(names)} or {last}",
        "ingest one of these, a JSON document of messages, Markdown or plain text",
    )
