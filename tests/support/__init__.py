"""Helpers shared by tests: processes, scripted models, and workspaces to build and to break."""
