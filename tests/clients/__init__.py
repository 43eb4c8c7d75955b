"""Agents as their makers publish them, connected: Claude Code, Codex and the MCP Inspector, from npm and pinned.

`make clients` installs them. The lock names no registry; a new one is made by
`npm install --package-lock-only --omit-lockfile-registry-resolved` in this folder.
"""
