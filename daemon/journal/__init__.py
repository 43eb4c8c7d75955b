"""The journal: what changed in MEMORY.md, and why, and how it is taken back."""
