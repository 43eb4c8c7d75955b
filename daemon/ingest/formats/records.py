"""Records: files of JSON lines, each record read by the reader of its format."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import count
from typing import BinaryIO

from daemon.ingest.formats.agents import Known, Reader, messages_of
from daemon.ingest.formats.lines import CALL_BYTES, CALL_PROBLEMS, CALL_TURNS, LINE_BYTES, Line, Place, lines_from
from daemon.ingest.formats.turn import Hearing, Problem, RawTurn, Reading, Record, RecordError, Turn, Watermark
from state.crystals.crystal import Source

# A log is only appended to: its last block tells whether it is still the same file.
_TAIL_BYTES = 4 * 1024


def digest(file: BinaryIO, end: int) -> str:
    """Return the SHA-256 (hex) of the last bytes before offset `end`, as a watermark keeps it."""
    start = max(0, end - _TAIL_BYTES)
    file.seek(start)
    return hashlib.sha256(file.read(end - start)).hexdigest()


def read(file: BinaryIO, place: Place, start: Watermark, reader: Reader) -> Reading:
    """Read the records from a watermark on, up to the end or to about one call's worth."""
    turns, problems = list[Turn](), list[Problem]()
    end, ends, complete = start.resume, start.lines, True
    memory = start.memory()
    known, hearing = Known.remembered(memory, place.name), Hearing(memory.get("heard"))
    for line in lines_from(file, start.resume, start.lines + 1):
        if len(turns) >= CALL_TURNS or len(problems) >= CALL_PROBLEMS or end - start.resume >= CALL_BYTES:
            complete = False
            break
        if line.raw.strip():
            try:
                messages = messages_of(record_of(line), known, f"{place.name}/{line.number}")
                raw_turns = [turn for message in messages for turn in reader(message, known)]
            except RecordError as error:
                if not line.ended:  # still being written: left for the next time
                    break
                problems.append(Problem(place.name, line.number, f"the record {error}"))
                raw_turns = []
            turns.extend(_turns(place, line, raw_turns, start.turns + len(turns), hearing))
        # A last line without its end counts as a line only when the end has come.
        end, ends = line.end, ends + line.ended
    carry = json.dumps({**known.carry(), "heard": hearing.carry()})
    watermark = Watermark(end, end, ends, start.turns + len(turns), digest(file, end), carry)
    return Reading(tuple(turns), watermark, tuple(problems), complete)


def record_of(line: Line) -> Record:
    """Return the JSON object on a line. Raise RecordError, which says what is wrong with it."""
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


def _turns(place: Place, line: Line, raw_turns: Iterable[RawTurn], position: int, hearing: Hearing) -> Iterator[Turn]:
    source = Source(place.name, line.number, line.number, hashlib.sha256(line.raw.strip()).hexdigest())
    numbers = count(position)
    for one in raw_turns:
        heard = hearing.of(one)  # a screenshot has no text
        if one.text:
            yield one.as_turn(place.at, next(numbers), source, heard)
