"""Models: one language model through litellm, or an agent's own program."""
