"""Forgetting: finds a text to be forgotten in other texts, removes it, and keeps it from coming back."""
