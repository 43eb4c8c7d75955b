"""Evaluation: what the dream is worth, measured on a life of notes (`dreamd eval`)."""
