"""Repair of a damaged state.db: checks it, salvages its rows and rebuilds it from what else is known."""
