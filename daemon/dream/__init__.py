"""Dreams: one run from snapshot to commit, the consolidation pass, proposals and restore."""
