"""Detection: the format of a file, by its content, and by its name only where the content does not decide."""

import json
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from daemon.ingest.formats import claude_code, codex, markdown, openai, plain
from daemon.ingest.formats.lines import LINE_BYTES, Line, lines_from
from daemon.ingest.formats.turn import Record, RecordError
from state.errors import DocumentError

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


def detect(file: BinaryIO, path: Path) -> Format:
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
        found = _records(file, path, must_be=json_lines)
        if found:
            return found
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise DocumentError(
            f"{path}:{line}: a NUL byte: this is no text", "ingest transcripts, Markdown or plain text"
        )
    if begins.startswith(b"{") or (begins.startswith(b"[") and begins[1:].lstrip()[:1] in (b"{", b"[", b"]", b"")):
        return Format.JSON_DOCUMENT
    return _prose(head.decode("utf-8", "replace"), path)


def _records(file: BinaryIO, path: Path, *, must_be: bool) -> Format | None:
    """The format of the first line that is a record of a known one."""
    whole = unfinished = 0
    for line in islice(lines_from(file), _LINES):
        if not line.raw.strip():
            continue
        try:
            record = record_of(line)
        except RecordError:
            unfinished += not line.ended
            continue
        whole += 1
        for found, adapter in (
            (Format.CODEX, codex),
            (Format.CLAUDE_CODE, claude_code),
            (Format.OPENAI, openai),
        ):
            if adapter.recognises(record):
                return found
    if not must_be:
        return None
    if not whole and unfinished:
        return Format.NOTHING_YET
    raise DocumentError(
        f"{path}: none of its first {_LINES} lines is a record of Claude Code, of Codex or an OpenAI-style message",
        "ingest one of these, a JSON document of messages, Markdown or plain text",
    )


def record_of(line: Line) -> Record:
    """The JSON object on a line. Raises RecordError, which says what is wrong with it."""
    if line.too_long:
        raise RecordError(f"is longer than {LINE_BYTES // 2**20} MiB")
    try:
        record = json.loads(line.raw.decode("utf-8-sig" if line.start == 0 else "utf-8"))
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


def _prose(head: str, path: Path) -> Format:
    lines = head.splitlines()[:_LINES]
    if path.suffix.lower() in _MARKDOWN or any(markdown.is_heading(line) for line in lines):
        return Format.MARKDOWN
    return Format.SPEECHES if plain.is_conversation(lines) else Format.PARAGRAPHS
