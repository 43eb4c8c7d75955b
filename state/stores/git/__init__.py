"""What git did to MEMORY.md: a checkout is no edit, and a file with conflict markers is no memory."""
