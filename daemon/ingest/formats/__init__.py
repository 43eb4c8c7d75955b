"""Formats: reads transcripts of agents and people incrementally into turns.

The content decides the format. An adapter sees one record (claude_code, codex, openai), one document (documents) or
lines (prose); files of records and prose are streamed, so a file of any size is read in bounded memory.
"""
