"""Told secrets: known by the words beside them, in settings, tables and sentences of fifteen languages."""
