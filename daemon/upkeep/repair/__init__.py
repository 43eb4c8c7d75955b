"""Repair: the jobs of `dreamd doctor --repair`, each of which says what is wrong and what it does about it."""
