"""Doors of the fleet for its tenants: whose request it is, what it may, and where it is done."""
