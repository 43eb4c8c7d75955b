"""Transcripts of agents: records written to a file, and the turns that are read of it."""

import json
from pathlib import Path

from daemon.ingest.formats.conversation import Reading, Turn, Watermark
from daemon.ingest.formats.reading import readings


def read_turns(path: Path, start: Watermark | None = None) -> Reading:
    return next(readings(path, start))


def turns(path: Path, *records: object) -> tuple[Turn, ...]:
    """The turns of a file of these records, all of which can be read."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    reading = read_turns(path)
    assert reading.problems == ()
    return reading.turns
