"""Forgetting: finds a text that is to be forgotten in other texts, takes it out, and keeps it from coming back."""
