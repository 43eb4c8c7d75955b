"""Policies: who leaves a session's working memory, and where they go: `ttl`, `budget`, `hybrid`, `bounded`."""
