"""Reading: reads a transcript from its watermark on, in the format that its content shows.

JSON lines are streamed, so that a file of any size needs bounded memory; a document is read whole. A packed file
(.zst) is read as if it were unpacked, so its watermark is that of the plain file.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice, repeat
from pathlib import Path
from typing import BinaryIO

from daemon.ingest.formats import prose
from daemon.ingest.formats.agents import READERS, Reader, format_of, messages_of, opened
from daemon.ingest.formats.conversation import Conversation, Problem, Reading, Record, RecordError, Watermark
from daemon.ingest.formats.lines import CALL_BYTES, CALL_PROBLEMS, CALL_TURNS, LINE_BYTES, Line, lines_from
from state.crystals.crystal import Source
from state.errors import DocumentError, NotFoundError, StorageError
from state.stores.disk.packed_files import SUFFIX, UnpackingError, opened_unpacked

_LINES = 200
_HEAD_BYTES = 64 * 1024
# A log is only appended to: its last bytes show whether it is still the same file.
_TAIL_BYTES = 4 * 1024
_JSON_BYTES = 64 * 1024 * 1024
_MARKDOWN = {".md", ".markdown", ".mdx"}
_JSON_LINES = {".jsonl", ".ndjson"}
_NOTHING_YET, _JSON = "nothing yet", "JSON document"
_IN_EACH_MESSAGE = re.compile(r'(?<!\\)"role"\s*:')  # once per message, so it gives the message's line


def readings(path: Path, start: Watermark | None = None, zone: tzinfo = UTC) -> Iterator[Reading]:
    """Yield the turns after `start`, or all of them if this is another file than the one of `start`.

    A reading of JSON lines covers at most about 16 MiB, and the last one ends at the end of the file; an unfinished
    last line that is no whole record yet is left for the next time. A document is read whole. Broken lines are
    reported and skipped. A turn without a time gets the file's; a
    time without an offset is one of `zone`. Reading anything twice gives the same turns, hence
    the same crystals.

    Raise NotFoundError, StorageError (unreadable), DocumentError (a folder, binary, damaged, too long, not UTF-8, or
    JSON of an unknown shape).
    """
    if path.is_dir():
        raise DocumentError(f"{path} is a folder", "name the files in it")
    if path.exists() and not path.is_file():
        raise DocumentError(f"{path} is no regular file", "name a transcript")
    complete = False
    while not complete:
        try:
            with opened_unpacked(path) as file:
                for reading in _readings(file, path, start or Watermark(), zone):
                    yield reading
                    complete, start = reading.complete, reading.watermark
        except FileNotFoundError as error:
            raise NotFoundError(f"{path} does not exist", "check the path") from error
        except UnpackingError as error:
            advice = f"restore it, or unpack what is left with 'zstd -d' and remove the {SUFFIX}"
            raise DocumentError(f"{path} cannot be unpacked: {error.strerror}", advice) from error
        except OSError as error:
            raise StorageError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error


def _readings(file: BinaryIO, path: Path, start: Watermark, zone: tzinfo) -> Iterator[Reading]:
    """Yield one reading of JSON lines, or all readings of a document."""
    kind, status = _format_of(file, path), os.fstat(file.fileno())
    changed, size, is_log = datetime.fromtimestamp(status.st_mtime, UTC), file.seek(0, os.SEEK_END), kind in READERS
    if kind == _NOTHING_YET:
        yield Reading((), Watermark())
        return
    content = b"" if is_log else _content(file, path, size, kind)
    digest = _tail(file, start.bytes_read) if is_log else hashlib.sha256(content[: start.bytes_read]).hexdigest()
    if start.bytes_read > size or start.digest != digest:
        start = Watermark()
    if start.bytes_read == size:
        yield Reading((), start)
    elif is_log:
        yield _read_log(
            file, Conversation(str(path), changed, start.memory(), start.turns, zone), start, READERS[kind][1]
        )
    elif kind == _JSON:
        yield _read_document(content, Conversation(str(path), changed, zone=zone))
    else:
        yield from prose.read(content, str(path), changed, start, kind)


def _content(file: BinaryIO, path: Path, size: int, kind: str) -> bytes:
    """Return a whole document. Raise DocumentError if it is too long, since it cannot be read in parts."""
    most = _JSON_BYTES if kind == _JSON else prose.TEXT_BYTES
    if size > most:
        advice = "write it as JSONL (one message a line), which is read in parts" if kind == _JSON else "split it"
        raise DocumentError(f"{path} is a {kind} of {size // 2**20} MiB; {most // 2**20} are read", advice)
    file.seek(0)
    return file.read(size)


def _format_of(file: BinaryIO, path: Path) -> str:
    """Return the format of an open file. Raise DocumentError for a binary file or lines of an unknown shape."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(f"{path} is UTF-16", "convert it to UTF-8 and ingest it again")
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begins:
        return _NOTHING_YET
    suffix = Path(path.stem if path.suffix == SUFFIX else path.name).suffix.lower()
    json_lines = suffix in _JSON_LINES
    if json_lines or begins.startswith(b"{"):
        known_format = _format_of_log(file, path, must_be=json_lines)
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
    if suffix in _MARKDOWN or any(prose.is_heading(line) for line in lines):
        return prose.MARKDOWN
    return prose.SPEECHES if prose.is_conversation(lines) else prose.PARAGRAPHS


def _format_of_log(file: BinaryIO, path: Path, *, must_be: bool) -> str | None:
    """Return the format of the first line that is a record of a known format."""
    is_begun = is_other = False
    for line in islice(lines_from(file), _LINES):
        if not line.raw.strip():
            continue
        try:
            record = _record_of(line)
        except RecordError:
            begins = not line.ended and line.raw.lstrip(b"\xef\xbb\xbf \t").startswith(b"{")
            is_begun, is_other = is_begun or begins, is_other or not begins
            continue
        is_other = True
        if found := format_of(record):
            return found
    if not must_be:
        return None
    if is_begun and not is_other:
        return _NOTHING_YET
    *names, last = READERS
    raise DocumentError(
        f"{path}: none of its first {_LINES} lines is a record of {', '.join(names)} or {last}",
        "ingest one of these, a JSON document of messages, Markdown or plain text",
    )


# JSON lines


def _tail(file: BinaryIO, end: int) -> str:
    """Return the SHA-256 (hex) of the last bytes before offset `end`, for a watermark."""
    start = max(0, end - _TAIL_BYTES)
    file.seek(start)
    return hashlib.sha256(file.read(end - start)).hexdigest()


def _read_log(file: BinaryIO, talk: Conversation, start: Watermark, reader: Reader) -> Reading:
    """Read the records from a watermark up to the end, or about one call's worth."""
    name, problems = talk.name, list[Problem]()
    end, ends, complete = start.resume, start.lines, True
    for line in lines_from(file, start.resume, start.lines + 1):
        if len(talk.turns) >= CALL_TURNS or len(problems) >= CALL_PROBLEMS or end - start.resume >= CALL_BYTES:
            complete = False
            break
        if line.raw.strip():
            talk.source = Source(name, line.number, line.number, hashlib.sha256(line.raw.strip()).hexdigest())
            try:
                messages = opened(_record_of(line), talk, f"{name}/{line.number}")
            except RecordError as error:
                if not line.ended:  # still being written: left for the next time
                    break
                problems.append(Problem(name, line.number, f"the record {error}"))
                messages = []
            for message in messages:
                try:
                    reader(message, talk)
                except RecordError as error:
                    problems.append(Problem(name, line.number, f"the record {error}"))
        # An unfinished last line counts as a line only once its end has been written.
        end, ends = line.end, ends + line.ended
    turns = tuple(talk.turns)
    mark = Watermark(end, end, ends, start.turns + len(turns), _tail(file, end), json.dumps(talk.carry()))
    return Reading(turns, mark, tuple(problems), complete)


def _record_of(line: Line) -> Record:
    """Return the JSON object on a line. Raise RecordError, which says what is wrong with it."""
    if line.too_long:
        raise RecordError(f"is longer than {LINE_BYTES // 2**20} MiB")
    try:
        record = json.loads(line.decoded())
    except UnicodeDecodeError as error:
        raise RecordError(f"is not UTF-8 (byte 0x{line.raw[error.start]:02x})") from error
    except json.JSONDecodeError as error:
        raise RecordError(f"is not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise RecordError("is nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise RecordError(f"is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise RecordError("is no JSON object")
    return record


# JSON documents: a session, or several, in one array or object


def _read_document(content: bytes, talk: Conversation) -> Reading:
    """Read all turns of the document, each with its lines if they can be determined.

    Raise DocumentError if it is not JSON, or of no known format.
    """
    name = talk.name
    text, document = _parsed(content, name)
    records = [one for one in (document if isinstance(document, list) else [document]) if isinstance(one, dict)]
    kind = next(filter(None, map(format_of, records)), None)
    if kind is None:
        raise DocumentError(
            f"{name} is JSON of an unknown shape",
            'known are OpenAI-style messages ([{role, content}, …] or {"messages": […]}) and sessions of Gemini CLI '
            "and of opencode",
        )
    problems, count = list[Problem](), 0
    groups = (messages_of(record) for record in records)
    lines = _lines(text, sum(1 if group is None else len(group) for group in groups))
    digest = hashlib.sha256(content).hexdigest()
    for number, record in enumerate(records, 1):
        for message in opened(record, talk, name if len(records) == 1 else f"{name}/{number}"):
            count += 1
            talk.source = Source(name, *next(lines), digest)
            try:
                READERS[kind][1](message, talk)
            except RecordError as error:
                problems.append(Problem(name, 1, f"message {count} {error}"))
    mark = Watermark(len(content), len(content), digest=digest, carry=json.dumps({"undated": talk.undated}))
    return Reading(tuple(talk.turns), mark, tuple(problems))


def _parsed(content: bytes, name: str) -> tuple[str, object]:
    try:
        text = content.decode("utf-8-sig")
        return text, json.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"{name}:{line}: byte 0x{content[error.start]:02x} is not UTF-8"
        raise DocumentError(what, "convert the file to UTF-8") from error
    except json.JSONDecodeError as error:
        what = f"{name}:{error.lineno}: this is not JSON ({error.msg}, column {error.colno})"
        raise DocumentError(what, "mend the file, or name it .jsonl if each line is a record") from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{name} is JSON nested too deeply, or with too long a number", "mend it") from error


def _lines(text: str, messages: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each message; those of the whole document if they cannot be determined."""
    starts, line, at = [], 1, 0
    for match in _IN_EACH_MESSAGE.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        starts.append(line)
    last = line + text.count("\n", at)
    if not messages or len(starts) != messages:
        return repeat((1, last))
    return iter([(start, max(start, end - 1)) for start, end in zip(starts, [*starts[1:], last + 1], strict=True)])
