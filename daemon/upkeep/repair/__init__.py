"""Repair: the jobs of `dreamd doctor --repair`, each with what is wrong and what it does about it."""
