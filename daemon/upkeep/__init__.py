"""Upkeep: forget, export, import, examine, repair and take over a workspace."""
