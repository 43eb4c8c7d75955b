"""The values that are remembered, and pure functions on them."""
