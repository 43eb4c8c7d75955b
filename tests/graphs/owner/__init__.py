"""What the owner does to lines of MEMORY.md."""
