"""Stores: the only code that touches disk, SQLite and ChromaDB."""
