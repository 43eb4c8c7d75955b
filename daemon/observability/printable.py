"""Printable text: what a terminal or a log can show without obeying it."""

# What could move the cursor, recolour the screen or turn the reading direction is shown, not done.
_COMMANDS = (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))


_SHOWN = {code: ascii(chr(code))[1:-1] for code in _COMMANDS if chr(code) not in "\n\t"}


def safe(text: str) -> str:
    """The text with nothing in it that a terminal would obey."""
    return text.translate(_SHOWN)
