"""Configuration: what a user can set, and the paths of the daemon's own files."""
