"""Sentences: tells questions from statements."""

_CLOSING = " \n\t\"'”’)]*_"


def ends_as_question(text: str) -> bool:
    """Return whether a text ends with a question mark; such a text seldom answers."""
    return text.rstrip(_CLOSING).endswith(("?", "？", "؟"))
