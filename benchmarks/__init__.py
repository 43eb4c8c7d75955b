"""What the README measures: each module prints a table."""
