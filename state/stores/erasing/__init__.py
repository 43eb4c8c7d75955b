"""Forgetting on disk: plans what a forgetting changes, erases it from tables and files, and searches for the rest."""
