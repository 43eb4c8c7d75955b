"""Formats: transcripts of agents and people, read incrementally into turns: one file a format.

The format is told by the content. Each adapter sees one record (claude_code, codex, openai), one document (locomo) or
lines (markdown, plain); files of records and prose are streamed, so a file of any size is read in bounded memory.
"""
