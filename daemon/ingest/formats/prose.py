"""Prose: Markdown and plain documents, whose blocks become turns; the file is the session."""

from collections.abc import Callable, Iterator

from daemon.ingest.formats.blocks import Block
from daemon.ingest.formats.lines import LINE_BYTES, Line, lines_from
from daemon.ingest.formats.place import CALL_BYTES, CALL_PROBLEMS, CALL_TURNS, Place
from daemon.ingest.formats.turn import Problem, Reading, Record, Turn, Watermark, memory
from state.crystals.crystal import Source

Blocks = Callable[[str, Iterator[Line], Record], Iterator[Block]]


def read(place: Place, blocks: Blocks) -> Reading:
    """The blocks from `place` on, up to the end or to about one call's worth.

    The last block may still grow, so the next reading of a longer file begins with it again.
    """
    start = place.start
    lines = _Lines(place)
    turns: list[Turn] = []
    last: Block | None = None
    for block in blocks(str(place.path), iter(lines), memory(start.carry)):
        if len(turns) >= CALL_TURNS or block.start - start.resume >= CALL_BYTES:
            mark = _mark(place, block, block.start, start.turns + len(turns))
            return Reading(tuple(turns), mark, tuple(lines.problems), complete=False)
        last = block
        turns.append(_turn(place, block, start.turns + len(turns)))
    if last:
        mark = _mark(place, last, lines.end, start.turns + len(turns) - 1)
    else:
        mark = Watermark(lines.end, start.resume, start.lines, start.turns, place.digest(lines.end), start.carry)
    return Reading(tuple(turns), mark, tuple(lines.problems))


class _Lines:
    """The lines from a place on that are short enough; the others are reported. `end`: offset that was reached."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.end = place.start.resume
        self.problems: list[Problem] = []

    def __iter__(self) -> Iterator[Line]:
        start = self._place.start
        for line in lines_from(self._place.file, start.resume, start.lines + 1):
            self.end = line.end
            if not line.too_long:
                yield line
            elif len(self.problems) < CALL_PROBLEMS:
                what = f"longer than {LINE_BYTES // 2**20} MiB"
                self.problems.append(Problem(str(self._place.path), line.number, what))


def _mark(place: Place, block: Block, end: int, turns: int) -> Watermark:
    return Watermark(end, block.start, block.first_line - 1, turns, place.digest(end), block.carry)


def _turn(place: Place, block: Block, position: int) -> Turn:
    source = Source(str(place.path), block.first_line, block.last_line, block.digest)
    session = str(place.path)
    return Turn(block.text, block.speaker, block.trust, place.file_time, session, position, source, block.heading)
