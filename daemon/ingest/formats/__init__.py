"""Formats: parses transcripts of agents and people into turns; the content shows the format."""
