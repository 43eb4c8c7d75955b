"""The journal: what changed in MEMORY.md and why, why a text is not there, and how a change is taken back."""
