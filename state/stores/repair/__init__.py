"""Repair of state.db: checks of a database, and files of earlier versions that move into the current state."""
