"""Notices: messages for a person about what was done for them, each of them once."""


class Notices(list[str]):
    """The messages so far, in the order in which they came."""

    def add(self, text: str) -> None:
        """Add a message, unless it is among them already."""
        if text not in self:
            self.append(text)
