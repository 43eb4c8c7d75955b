"""Working memory in state.db: sessions, their items and events, promotions, and the cold archive."""
