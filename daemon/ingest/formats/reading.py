"""Reading: a transcript from its watermark on, in the format that its content shows."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from daemon.ingest.formats import claude_code, codex, documents, openai, prose, records
from daemon.ingest.formats.lines import Place, digest_before, lines_from
from daemon.ingest.formats.turn import Conversation, Reading, Record, RecordError, Watermark, memory
from state.errors import DocumentError, NotFoundError, StorageError
from state.stores.disk.disk import opened

_LINES = 200
_HEAD_BYTES = 64 * 1024
_MARKDOWN = {".md", ".markdown", ".mdx"}
_JSON_LINES = {".jsonl", ".ndjson"}


class Format(StrEnum):
    """The formats that can be read."""

    NOTHING_YET = "nothing yet"
    CLAUDE_CODE = "Claude Code"
    CODEX = "Codex"
    OPENAI = "OpenAI-style messages"
    JSON_DOCUMENT = "JSON document"
    MARKDOWN = "Markdown"
    SPEECHES = "speakers' lines"
    PARAGRAPHS = "plain text"


# A log is only appended to: the last block that was read tells whether it is still the same file. A document is
# edited anywhere, so all of it counts.
_TAIL_BYTES = 4 * 1024

_CONVERSATIONS: dict[Format, Callable[[Record, str], Conversation]] = {
    Format.CLAUDE_CODE: claude_code.ClaudeCode,
    Format.CODEX: codex.Codex,
    Format.OPENAI: openai.OpenAI,
}
_PROSE: dict[Format, prose.Blocks] = {
    Format.MARKDOWN: prose.markdown,
    Format.SPEECHES: prose.speeches,
    Format.PARAGRAPHS: prose.paragraphs,
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
    kind = _format_of(file, path)
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


def _format_of(file: BinaryIO, path: Path) -> Format:
    """The format of an open file. Raises DocumentError for a binary file and for JSON lines of an unknown shape."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(f"{path} is UTF-16", "convert it to UTF-8 and ingest it again")
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begins:
        return Format.NOTHING_YET
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
        return Format.JSON_DOCUMENT
    return _format_of_text(head.decode("utf-8", "replace"), path)


def _format_of_records(file: BinaryIO, path: Path, *, must_be: bool) -> Format | None:
    """The format of the first line that is a record of a known one."""
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
        for known_format, adapter in (
            (Format.CODEX, codex),
            (Format.CLAUDE_CODE, claude_code),
            (Format.OPENAI, openai),
        ):
            if adapter.recognises(record):
                return known_format
    if not must_be:
        return None
    if not whole and unfinished:
        return Format.NOTHING_YET
    raise DocumentError(
        f"{path}: none of its first {_LINES} lines is a record of Claude Code, of Codex or an OpenAI-style message",
        "ingest one of these, a JSON document of messages, Markdown or plain text",
    )


def _format_of_text(head: str, path: Path) -> Format:
    lines = head.splitlines()[:_LINES]
    if path.suffix.lower() in _MARKDOWN or any(prose.is_heading(line) for line in lines):
        return Format.MARKDOWN
    return Format.SPEECHES if prose.is_conversation(lines) else Format.PARAGRAPHS
