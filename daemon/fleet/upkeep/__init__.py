"""Upkeep of a fleet: status and metrics, removal, archives, and recovery."""
