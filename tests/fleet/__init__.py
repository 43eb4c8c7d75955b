"""Many machines at once, and what befalls them: what a fleet acknowledged is there, once, whoever dies."""
