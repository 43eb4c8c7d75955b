"""Sentences: splits texts into statements, and tells questions from statements."""

from state.text.patterns import late_pattern

_CLOSING = " \n\t\"'”’)]*_"
_STATEMENT_END = late_pattern(r"(?<=[.!?;。！？；])\s+|(?<=[。！？；])|\n+")


def statements_of(text: str) -> list[str]:
    """The pieces of a text between the marks that end a statement, semicolons and line breaks; some may be blank."""
    return _STATEMENT_END.split(text)


def ends_as_question(text: str) -> bool:
    """Whether a text ends with a question mark; such a text seldom answers."""
    return text.rstrip(_CLOSING).endswith(("?", "？", "؟"))
