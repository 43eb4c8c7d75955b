"""Dreams: one run from snapshot to commit, the consolidation pass, reviews and restore."""
