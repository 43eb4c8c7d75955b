"""Printable text: escapes control characters, for terminals and logs."""

# They could move the cursor, recolour the screen or turn the reading direction.
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_ESCAPED = {code: ascii(chr(code))[1:-1] for code in _CONTROLS if chr(code) not in "\n\t"}


def safe(text: str) -> str:
    """Return the text with its control characters escaped, except for line ends and tabs."""
    return text.translate(_ESCAPED)
