"""Formats: transcripts of agents and people, read incrementally into turns: one file a format.

The format is told by the content. Each adapter sees one record (claude_code, codex, openai), one document (locomo) or
lines (markdown, plain); files of records and prose are streamed, so a file of any size is read in bounded memory.
"""

from daemon.ingest.formats.reading import read_turns, readings
from daemon.ingest.formats.turn import Problem, Reading, Turn, Watermark
from daemon.ingest.turn_crystals import crystals_of

__all__ = ["Problem", "Reading", "Turn", "Watermark", "crystals_of", "read_turns", "readings"]
