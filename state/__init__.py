"""State: the values that dreamd remembers, and pure functions on them; only `stores` touches the disk."""
