"""Document: MEMORY.md as a value: parsing, editing, merging with the owner's edits, and operations on its lines."""
