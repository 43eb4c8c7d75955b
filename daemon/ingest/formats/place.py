"""Place: an open transcript, and where reading it goes on."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from daemon.ingest.formats.lines import digest_before
from daemon.ingest.formats.turn import Watermark

# One call reads about so much, so that a file of any size is read in bounded memory.
CALL_BYTES = 16 * 1024 * 1024
CALL_TURNS = 20_000
CALL_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class Place:
    """An open file, its time, where to go on, and how many bytes before that tell that it is the same file still."""

    file: BinaryIO
    path: Path
    file_time: datetime
    start: Watermark
    span: int

    def digest(self, end: int) -> str:
        """Digest of what stands before offset `end`, as a watermark keeps it."""
        return digest_before(self.file, end, self.span)
