"""The fleet in PostgreSQL: who owns which workspace, what waits for it, when it is due."""
