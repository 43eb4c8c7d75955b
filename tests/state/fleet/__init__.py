"""Values of the fleet."""
