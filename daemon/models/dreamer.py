"""Dreamer: which model dreams, in the one sentence that setup, status and doctor say."""

NO_MODEL = "no model dreams: each note becomes a line of MEMORY.md, word for word"


def who_dreams(model: str | None) -> tuple[str, str]:
    """Return which model dreams, or that none does and what that means, and how to change it."""
    if not model:
        return NO_MODEL, "'dreamd config set model.name NAME' chooses one"
    return f"{model} dreams", "'dreamd config set model.name NAME' changes it"
