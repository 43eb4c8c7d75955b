"""Upkeep: forget, export, import, examine and repair a workspace."""
