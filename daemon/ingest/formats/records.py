"""Records: files of JSON lines, each record read by the adapter of its format."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import count

from daemon.ingest.formats.lines import CALL_BYTES, CALL_PROBLEMS, CALL_TURNS, LINE_BYTES, Line, Place, lines_from
from daemon.ingest.formats.turn import (
    Conversation,
    Hearing,
    Problem,
    RawTurn,
    Reading,
    Record,
    RecordError,
    Turn,
    Watermark,
    memory,
)
from state.crystals.crystal import Source


def read(place: Place, adapter: Conversation) -> Reading:
    """The turns of the records from `place` on, up to the end or to about one call's worth."""
    turns: list[Turn] = []
    problems: list[Problem] = []
    start = place.start
    end, ends, complete = start.resume, start.lines, True
    hearing = Hearing(memory(start.carry).get("heard"))
    for line in lines_from(place.file, start.resume, start.lines + 1):
        if len(turns) >= CALL_TURNS or len(problems) >= CALL_PROBLEMS or end - start.resume >= CALL_BYTES:
            complete = False
            break
        if line.raw.strip():
            try:
                raw_turns = list(adapter.read(record_of(line), line.number))
            except RecordError as error:
                if not line.ended:  # still being written: left for the next time
                    break
                problems.append(Problem(str(place.path), line.number, f"the record {error}"))
                raw_turns = []
            turns.extend(_turns(place, line, raw_turns, start.turns + len(turns), hearing))
        # A last line without its end counts as a line only when the end has come.
        end, ends = line.end, ends + line.ended
    carry = json.dumps({**adapter.carry(), "heard": hearing.carry()})
    watermark = Watermark(end, end, ends, start.turns + len(turns), place.digest(end), carry)
    return Reading(tuple(turns), watermark, tuple(problems), complete)


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


def _turns(place: Place, line: Line, raw_turns: Iterable[RawTurn], position: int, hearing: Hearing) -> Iterator[Turn]:
    source = Source(str(place.path), line.number, line.number, hashlib.sha256(line.raw.strip()).hexdigest())
    numbers = count(position)
    for one in raw_turns:
        heard = hearing.of(one)  # a screenshot has no text
        if one.text:
            at = one.at or place.file_time
            number = next(numbers)
            yield Turn(one.text, one.speaker, one.trust, at, one.session, number, source, call=one.call, heard=heard)
