"""What an editor of a configuration file does, and which one a format has."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from daemon.connect.editors import jsonc, toml
from daemon.connect.editors.splices import Path

Format = Literal["json", "toml"]


class Editor(Protocol):
    """Pure functions of the text of a file, decoded as UTF-8 with its line ends and byte order mark as they are.

    A missing file is the empty text. Each raises DocumentError for a text that is broken or that cannot be changed
    without changing more of it, UsageError for a value or path that no file can hold: then nothing may be written.
    Each returns the text itself where there is nothing to change. Comments outside of what is taken out stay.

    Taking out undoes setting byte for byte if nothing stood at the path before, and `prune` is given if and only if
    the object or array that the member or item was put into did not stand there either. Four things are not undone:
    `prune` also takes out what stood empty on the way before; brackets with white space alone between them have none
    afterwards; a text without an object has `{}` in JSON; and where a table of TOML had other tables only, it keeps
    the header that an entry in it needed.
    """

    def parse(self, text: str) -> dict[str, object]:
        """What every reader of the file reads: of two members of one name the last."""
        ...

    def is_empty(self, text: str) -> bool:
        """Whether there is nothing that anybody wrote: no member, no comment."""
        ...

    def with_value(self, text: str, path: Path, value: object) -> str:
        """The text with this value there, and with the objects on the way. What is equal within an object stays."""
        ...

    def with_item(self, text: str, path: Path, item: object) -> str:
        """The text with this item in the array there, as the last if there is none that is equal."""
        ...

    def without_value(self, text: str, path: Path, *, prune: bool = False) -> str:
        """The text without what stands there; with `prune` also without objects on the way that are empty then."""
        ...

    def without_item(
        self, text: str, path: Path, item: object | Callable[[object], bool], *, prune: bool = False
    ) -> str:
        """The text without the items of the array that are equal to this, or for which this is true.

        With `prune` also without the array and the objects on the way, as far as they are empty then.
        """
        ...


EDITORS: Mapping[Format, Editor] = {"json": jsonc, "toml": toml}
