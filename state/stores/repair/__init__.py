"""Repair of state.db: the check of a database, and what is filled in after a copy was restored."""
