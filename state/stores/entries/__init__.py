"""The entries of programs in state.db, and what of them is compared by meaning."""
