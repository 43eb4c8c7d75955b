"""Repair of state.db: checks of a database, and a state that moves out of its folder."""
