"""The fleet in PostgreSQL: who owns which workspace, what waits for it, and when it is due."""
