"""Crystals in state.db: their rows, words, vectors and hidden duplicates, and the search over them."""
