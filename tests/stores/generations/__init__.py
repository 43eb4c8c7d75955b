"""Generations of a workspace in an object store."""
