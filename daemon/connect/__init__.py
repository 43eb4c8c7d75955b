"""Connecting agents: what goes into whose configuration, and how it gets there without harm to what is there."""
