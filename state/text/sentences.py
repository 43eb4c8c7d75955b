"""Sentences: splits texts into sentences, and tells questions from statements."""

_CLOSING = " \n\t\"'”’)]*_"


def ends_as_question(text: str) -> bool:
    """Does a text ask? Such a text seldom answers."""
    return text.rstrip(_CLOSING).endswith(("?", "？", "؟"))
