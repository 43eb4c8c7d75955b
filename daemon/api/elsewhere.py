"""Elsewhere: what the global workspace and the other workspaces of this user say of a thing."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from daemon.config.paths import global_root, registry_path
from daemon.config.registry import known
from daemon.workspace.adoption import open_workspace
from daemon.workspace.session_start import global_memory, is_global
from state.document.document import parse
from state.errors import DreamdError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.text.words import normalise

# So many other workspaces are looked at, and so much of each.
_MOST = 20
_LOOKED_AT = 100_000


def global_lines(workspace: Workspace, wanted: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The lines of the global workspace that hold this, with their sections; none in that one itself."""
    if is_global(workspace, environment):
        return
    with suppress(DreamdError, OSError):  # a bootstrap says why it cannot be read
        for part in parse(global_memory(environment)[0][:_LOOKED_AT]).parts:
            for block in part.lines:
                if wanted in block.key:
                    yield part.name.value if part.name else "", block.raw


def holding(wanted: str, workspace: Workspace, environment: Mapping[str, str]) -> Path | None:
    """The first other workspace of this user whose MEMORY.md holds this; None when none of the first twenty does."""
    with suppress(DreamdError, OSError):
        others = (root for root in known(registry_path(environment)) if root != workspace.root)
        for root in islice(others, _MOST):
            if root != global_root(environment) and wanted in _memory(root, environment):
                return root
    return None


def _memory(root: Path, environment: Mapping[str, str]) -> str:
    """MEMORY.md of a workspace of this user's, folded; empty when it cannot be read."""
    with suppress(DreamdError, OSError):
        own = open_workspace(root, environment)
        own.require_own()
        content = Disk(own.root).read_optional(own.document) or b""
        return normalise(content[:_LOOKED_AT].decode(errors="replace"))
    return ""
