"""Formats: reads transcripts of agents and people into turns, in the format that their content shows."""
