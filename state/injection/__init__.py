"""Injection: recognises texts that try to command an agent, and makes texts safe for MEMORY.md."""
