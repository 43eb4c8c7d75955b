"""Content: checks the text of an item, and counts its tokens."""

from state.errors import UsageError
from state.sessions.item import MAX_CONTENT_BYTES
from state.text.chunks import tokens


def tokens_of(text: str) -> int:
    """About how many tokens a model counts, at least one: what takes a place is never free."""
    return max(1, tokens(text))


def checked(text: str) -> str:
    """The text, if it has at least one character and at most 102,400 bytes of UTF-8. Raises UsageError."""
    if not text:
        raise UsageError("content: it is empty", "write at least one character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            "content: it holds half a character (a lone surrogate)", "send whole Unicode text"
        ) from error
    if size > MAX_CONTENT_BYTES:
        raise UsageError(f"content: it has {size} bytes and may have {MAX_CONTENT_BYTES}", "cut it into several")
    return text
