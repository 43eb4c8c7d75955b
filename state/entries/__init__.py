"""Entries: what programs keep under names of their own; what an entry is, which of them a filter chooses."""
