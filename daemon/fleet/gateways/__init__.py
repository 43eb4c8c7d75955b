"""Gateways: stateless doors of the fleet, where tenants' agents ask by HTTP and MCP."""
