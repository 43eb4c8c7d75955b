"""Service: decides which workspace dreams when, and runs its jobs in threads."""
