"""Signals: what influences a dream besides the notes: hormones, open questions, emerging skills, economics."""
