"""Explain: why a line is there, why an agent was not told a thing, what a dream did, where a crystal comes from."""
