"""Working memory in state.db: sessions, their items, and the log of what happened to them."""
