"""What bears an operation out: claims and their numbers, whose words they are, lines that an input supersedes."""
