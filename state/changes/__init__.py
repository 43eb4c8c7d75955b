"""Changes to MEMORY.md as values, the page that applies them, and the owner's edits read from the file."""
