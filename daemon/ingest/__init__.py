"""Ingest: turns notes, transcripts and hooks of agents into crystals."""
