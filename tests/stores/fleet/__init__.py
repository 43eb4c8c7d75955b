"""The fleet in PostgreSQL."""
