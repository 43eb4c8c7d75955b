"""Agents as their makers publish them, connected: Claude Code, Codex, Gemini CLI, opencode, the MCP Inspector.

`make clients` installs them. The lock names no registry; a new one is made by
`npm install --package-lock-only --omit-lockfile-registry-resolved` in this folder.
"""
