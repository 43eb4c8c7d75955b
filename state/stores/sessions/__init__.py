"""Working memory in state.db: sessions, their items, and a log of what happened to them."""
