"""state.db: its connection and migrations, what its columns mean, and the tombstones of forgotten texts."""
