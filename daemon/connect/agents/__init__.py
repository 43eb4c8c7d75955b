"""The agents that can be connected, a module for each."""
