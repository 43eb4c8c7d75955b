"""A MEMORY.md that is in a folder before it is a workspace, and may be somebody else's."""

import os
from pathlib import Path

from state.document.document import parse
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import STATE_FOLDER
from state.stores.git.exclude import tracks


def found_in(root: Path) -> tuple[str, ...]:
    """Return the lines of a MEMORY.md that may have come with a folder that is no workspace yet; none of the owner's.

    It may have if a dreamd has written it, another workspace's id lies beside it, or git has it.
    """
    path = root / "MEMORY.md"
    text = (Disk(root).read_optional(path) or b"").decode(errors="replace")
    strange = os.path.lexists(root / STATE_FOLDER) or parse(text).has_schema or tracks(path)
    return tuple(line for line in text.splitlines() if line.strip()) if strange else ()
