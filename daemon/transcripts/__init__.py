"""Transcripts of agents and people, read incrementally into turns, and turns into crystals.

The format is told by the content. Each adapter sees one record (claude_code, codex, openai), one document (locomo) or
lines (markdown, plain); files of records and prose are streamed, so a file of any size is read in bounded memory.
"""

from daemon.transcripts.crystals import crystals_of
from daemon.transcripts.reading import read_turns, readings
from daemon.transcripts.turn import Problem, Reading, Turn, Watermark

__all__ = ["Problem", "Reading", "Turn", "Watermark", "crystals_of", "read_turns", "readings"]
