"""Secrets: keeps keys, tokens and passwords out of what is stored and sent."""
