"""Signals: what steers a dream beside the notes: hormones, open questions, emerging skills, economics."""
