"""The operations as an agent's tools, over stdio and over HTTP."""
