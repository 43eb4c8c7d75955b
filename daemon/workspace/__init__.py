"""Workspace: one workspace with its stores open, its vector index and embedder, and its status."""
