"""Upkeep of a fleet: how it stands, what moves in and out of it, what is removed and recovered."""
