"""JSON documents: LoCoMo's conversations, and OpenAI-style messages in one array or object.

LoCoMo (Maharana et al., 2024) has conversations of two people over many sessions: [{sample_id, conversation:
{speaker_a, speaker_b, session_N: [{speaker, dia_id, text, blip_caption?}], session_N_date_time: "1:56 pm on 8 May,
2023"}}]. What a photograph shows is appended in brackets.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, repeat

from daemon.ingest.formats import openai
from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.lines import Place
from daemon.ingest.formats.turn import Hearing, Problem, RawTurn, Reading, Record, RecordError, Turn, Watermark
from state.crystals.crystal import Source
from state.errors import DocumentError
from state.trust import Trust

DOCUMENT_BYTES = 64 * 1024 * 1024
_TURN_KEY = "dia_id"  # once in every turn and nowhere else: tells the line of each
_SESSION = re.compile(r"session_\d+")
_TIME = re.compile(r"(\d{1,2}):(\d\d)\s*([ap])m\s+on\s+(\d{1,2})\s+([a-z]{3})[a-z]*\s*,?\s+(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


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
    numbers, hearing = count(), Hearing()
    turns = tuple(
        Turn(
            turn.text,
            turn.speaker,
            turn.trust,
            turn.at or place.file_time,
            turn.session,
            next(numbers),
            Source(str(place.path), *line, digest),
            call=turn.call,
            heard=heard,
        )
        for group, line in zip(groups, lines, strict=False)
        for turn, heard in [(turn, hearing.of(turn)) for turn in group]
        if turn.text
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
    if _is_locomo(document):
        return [[turn] for turn in _locomo_turns(document)], _TURN_KEY
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
    for key_match in re.finditer(rf'(?<!\\)"{key}"\s*:', text):
        line += text.count("\n", at, key_match.start())
        at = key_match.start()
        starts.append(line)
    last = line + text.count("\n", at)
    if not turns or len(starts) != turns:
        return repeat((1, last))
    return iter([(start, max(start, end - 1)) for start, end in zip(starts, [*starts[1:], last + 1], strict=True)])


def _is_locomo(document: object) -> bool:
    """Whether this is a LoCoMo file, or one sample of it."""
    samples = document if isinstance(document, list) else [document]
    return bool(samples) and all(
        isinstance(sample, dict) and isinstance(sample.get("conversation"), dict) for sample in samples
    )


def _locomo_turns(document: object) -> Iterator[RawTurn]:
    """Every turn of a document that `_is_locomo` accepts, in the order of the file.

    A turn without text gives "", so that turns and `dia_id`s stay in step.
    """
    samples = document if isinstance(document, list) else [document]
    for number, sample in enumerate(samples, 1):
        conversation = sample["conversation"]
        name = sample.get("sample_id") or f"sample-{number}"
        for key, turns in conversation.items():
            if _SESSION.fullmatch(key) and isinstance(turns, list):
                at = session_time(conversation.get(f"{key}_date_time"))
                for turn in turns:
                    if isinstance(turn, dict) and _TURN_KEY in turn:
                        yield _locomo_turn(turn, at, f"{name}/{key}")


def session_time(value: object) -> datetime | None:
    """The time in "1:56 pm on 8 May, 2023", taken as UTC, or None."""
    match = _TIME.search(value) if isinstance(value, str) else None
    if not match or match[5].lower() not in _MONTHS:
        return None
    hour = int(match[1]) % 12 + (12 if match[3].lower() == "p" else 0)
    try:
        return datetime(
            int(match[6]), _MONTHS.index(match[5].lower()) + 1, int(match[4]), hour, int(match[2]), tzinfo=UTC
        )
    except ValueError:
        return None


def _locomo_turn(turn: Record, at: datetime | None, session: str) -> RawTurn:
    words = turn.get("text")
    text = clean(words) if isinstance(words, str) else ""
    if isinstance(caption := turn.get("blip_caption"), str) and caption.strip():
        text = f"{text} [{clean(caption)}]".strip()
    return RawTurn(text, clean(str(turn.get("speaker") or "")), Trust.OWNER, at, session)
