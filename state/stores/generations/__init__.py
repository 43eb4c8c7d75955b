"""Generations of a workspace in an object store, written once and restored by the next owner."""
