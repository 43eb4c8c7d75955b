"""dreamd's own HTTP headers and media types, in a module without imports, so that clients start fast."""

NDJSON = "application/x-ndjson"
ROOT_HEADER = "Dreamd-Workspace"
"""The root of the workspace, percent-encoded: two workspaces may have the same name."""
ADOPT_HEADER = "Dreamd-Adopt"
""""yes": register that workspace if the daemon does not keep it yet."""
NOTICES_HEADER = "Dreamd-Notices"
"""In a plain reply: the notices as a JSON list in ASCII, short enough for clients that limit headers."""
