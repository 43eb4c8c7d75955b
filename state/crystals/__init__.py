"""Crystals: the unit of long-term memory, how it ages, and how duplicates and contradictions are found."""
