"""What happened: notes, the versions of MEMORY.md, the life of each line, and what was paid."""
