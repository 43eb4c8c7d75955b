"""The fleet: values of many workspaces on many machines."""
