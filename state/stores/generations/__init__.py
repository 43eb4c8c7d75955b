"""Generations of a workspace in an object store: written once, brought up by the next owner."""
