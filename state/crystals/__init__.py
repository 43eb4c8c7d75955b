"""crystals."""
