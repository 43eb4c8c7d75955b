"""What the owner does to lines of MEMORY.md without an editor, as the dream that does it."""
