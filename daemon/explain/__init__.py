"""Explain: why a line exists, why an agent was not given a text, what a dream did, where a crystal comes from."""
