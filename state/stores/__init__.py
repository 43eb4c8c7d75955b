"""Where things are kept: the only code that touches disk, SQLite and ChromaDB."""
