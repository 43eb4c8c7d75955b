"""dreamd's own HTTP headers and media types, in a module without imports, so that clients start fast."""

NDJSON = "application/x-ndjson"
SETTINGS_HEADER = "Dreamd-Settings"
"""What a dream of the daemon takes along, from a caller at the Unix socket."""
NOTICES_HEADER = "Dreamd-Notices"
"""In a plain reply: the notices as a JSON list in ASCII, short enough for clients that limit headers."""
