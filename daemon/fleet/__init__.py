"""The fleet: workspaces of many tenants on many machines."""
