"""Models: asks a language model, through litellm or through an installed agent's program."""
