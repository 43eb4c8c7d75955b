"""Models: one language model through litellm, behind spending ceilings and retries."""
