"""Connecting agents once per user, by the agents' own means: plugins, extensions, or one entry of a JSON file."""
