"""JSON documents: a session, or several, in one array or object."""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import count, repeat

from daemon.ingest.formats.agents import READERS, Known, format_of, messages_of
from daemon.ingest.formats.lines import Place
from daemon.ingest.formats.turn import Hearing, Problem, RawTurn, Reading, RecordError, Turn, Watermark
from state.crystals.crystal import Source
from state.errors import DocumentError

DOCUMENT_BYTES = 64 * 1024 * 1024
_IN_EACH_MESSAGE = re.compile(r'(?<!\\)"role"\s*:')  # once, and so tells its line


def read(content: bytes, place: Place) -> Reading:
    """Read all turns of the document, each with its line where the lines can be told.

    Raise DocumentError when it is no JSON, or of no known format.
    """
    text = _text(place, content)
    problems = list[Problem]()
    groups = _groups(place, _parsed(place, text), problems)
    digest, numbers, hearing = hashlib.sha256(content).hexdigest(), count(), Hearing()
    turns = list[Turn]()
    for group, lines in zip(groups, _lines(text, len(groups)), strict=False):
        for turn in group:
            heard = hearing.of(turn)
            if turn.text:
                turns.append(turn.as_turn(place.at, next(numbers), Source(place.name, *lines, digest), heard))
    return Reading(tuple(turns), Watermark(len(content), len(content), digest=digest), tuple(problems))


def _text(place: Place, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"{place.name}:{line}: byte 0x{content[error.start]:02x} is not UTF-8", "convert the file to UTF-8"
        ) from error


def _parsed(place: Place, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{place.name}:{error.lineno}: this is not JSON ({error.msg}, column {error.colno})",
            "mend the file, or name it .jsonl if each line is a record",
        ) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            f"{place.name} is JSON nested too deeply, or with too long a number", "mend it"
        ) from error


def _groups(place: Place, document: object, problems: list[Problem]) -> list[list[RawTurn]]:
    """Return what was said, message by message."""
    entries = document if isinstance(document, list) else [document]
    records = [entry for entry in entries if isinstance(entry, dict)]
    name = next(filter(None, map(format_of, records)), None)
    if name is None:
        raise DocumentError(
            f"{place.name} is JSON of an unknown shape",
            'known are OpenAI-style messages ([{role, content}, …] or {"messages": […]}) and sessions of Gemini CLI '
            "and of opencode",
        )
    reader, known = READERS[name][1], Known(place.name)
    groups = list[list[RawTurn]]()
    for number, record in enumerate(records, 1):
        unnamed = place.name if len(records) == 1 else f"{place.name}/{number}"
        for message in messages_of(record, known, unnamed):
            groups.append([])
            try:
                groups[-1] = list(reader(message, known))
            except RecordError as error:
                problems.append(Problem(place.name, 1, f"message {len(groups)} {error}"))
    return groups


def _lines(text: str, messages: int) -> Iterator[tuple[int, int]]:
    """Yield first and last line of each message: up to the next one; the whole document if they cannot be told."""
    starts, line, at = [], 1, 0
    for match in _IN_EACH_MESSAGE.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        starts.append(line)
    last = line + text.count("\n", at)
    if not messages or len(starts) != messages:
        return repeat((1, last))
    return iter([(start, max(start, end - 1)) for start, end in zip(starts, [*starts[1:], last + 1], strict=True)])
