"""JSON documents: LoCoMo's conversations, and OpenAI-style messages in one array or object."""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import count, repeat

from daemon.ingest.formats import locomo, openai
from daemon.ingest.formats.place import Place
from daemon.ingest.formats.turn import Problem, RawTurn, Reading, Record, RecordError, Turn, Watermark
from state.crystals.crystal import Source
from state.errors import DocumentError

DOCUMENT_BYTES = 64 * 1024 * 1024


def read(place: Place) -> Reading:
    """All turns of the document, each with its line where the lines can be told.

    Raises DocumentError when it is longer than 64 MiB (JSON cannot be read in part), is no JSON, or is neither kind.
    """
    size = place.file.seek(0, 2)
    if size > DOCUMENT_BYTES:
        raise DocumentError(
            f"{place.path} is a JSON document of {size // 2**20} MiB",
            "write it as JSONL (one message a line), which is read in parts",
        )
    place.file.seek(0)
    raw = place.file.read(size)
    text = _text(place, raw)
    problems: list[Problem] = []
    groups, key = _groups(place, _parsed(place, text), problems)
    lines = _lines(text, key, len(groups))
    digest = hashlib.sha256(raw).hexdigest()
    numbers = count()
    turns = tuple(
        Turn(
            said.text,
            said.speaker,
            said.trust,
            said.at or place.file_time,
            said.session,
            next(numbers),
            Source(str(place.path), *line, digest),
            call=said.call,
        )
        for group, line in zip(groups, lines, strict=False)
        for said in group
        if said.text
    )
    return Reading(turns, Watermark(size, size, digest=place.digest(size)), tuple(problems))


def _text(place: Place, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"{place.path}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8", "convert the file to UTF-8"
        ) from error


def _parsed(place: Place, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{place.path}:{error.lineno}: this is not JSON ({error.msg}, column {error.colno})",
            "mend the file, or name it .jsonl if each line is a record",
        ) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            f"{place.path} is JSON nested too deeply, or with too long a number", "mend it"
        ) from error


def _groups(place: Place, document: object, problems: list[Problem]) -> tuple[list[list[RawTurn]], str]:
    """What was said, message by message, and the key that stands once in each message."""
    if locomo.recognises(document):
        return [[said] for said in locomo.raw_turns(document)], locomo.TURN_KEY
    entries = document if isinstance(document, list) else [document]
    records = [entry for entry in entries if isinstance(entry, dict)]
    if any(openai.recognises(record) for record in records):
        return _messages(place, records, problems), "role"
    raise DocumentError(
        f"{place.path} is JSON of an unknown shape",
        'known are OpenAI-style messages ([{role, content}, …] or {"messages": […]}) and LoCoMo\'s conversations',
    )


def _messages(place: Place, records: list[Record], problems: list[Problem]) -> list[list[RawTurn]]:
    name = str(place.path)
    adapter = openai.OpenAI({}, name)
    groups: list[list[RawTurn]] = []
    for number, record in enumerate(records, 1):
        for message, session in adapter.messages(record, name if len(records) == 1 else f"{name}/{number}"):
            try:
                groups.append(list(adapter.message(message, session)))
            except RecordError as error:
                groups.append([])
                problems.append(Problem(str(place.path), 1, f"message {len(groups)} {error}"))
    return groups


def _lines(text: str, key: str, turns: int) -> Iterator[tuple[int, int]]:
    """First and last line of each turn: from its key to the next one's; the whole document when they do not match."""
    starts, line, at = [], 1, 0
    for found in re.finditer(rf'(?<!\\)"{key}"\s*:', text):
        line += text.count("\n", at, found.start())
        at = found.start()
        starts.append(line)
    last = line + text.count("\n", at)
    if not turns or len(starts) != turns:
        return repeat((1, last))
    return iter([(start, max(start, end - 1)) for start, end in zip(starts, [*starts[1:], last + 1], strict=True)])
