"""Notices: messages for a person about an operation, without repetition."""


class Notices(list[str]):
    """The messages so far, in order of arrival."""

    def add(self, text: str) -> None:
        """Add a message unless it is already there."""
        if text not in self:
            self.append(text)
