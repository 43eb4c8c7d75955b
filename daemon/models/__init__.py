"""Models: asks a language model, through litellm or an agent's program; installs the embedding model."""
