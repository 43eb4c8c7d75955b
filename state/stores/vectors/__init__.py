"""Embeddings: the model that turns texts into vectors, and the index that finds the nearest ones."""
