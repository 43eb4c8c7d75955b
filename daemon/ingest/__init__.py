"""Ingest: notes, transcripts and agents' hooks become crystals."""
