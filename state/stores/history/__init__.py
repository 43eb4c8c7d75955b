"""What happened: the log of notes, the journal of committed dreams, the life of each line, and what was paid."""
