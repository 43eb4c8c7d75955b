"""A copy of a workspace, with its memory, as a workspace of its own."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from daemon.workspace.adoption import init_workspace, open_workspace
from state.stores.disk.places import PLACE
from state.stores.disk.workspace import Workspace


def copy_of(origin: Path, folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Copy the folder and the state of the workspace in `origin`, which is one of these tests' own."""
    before = open_workspace(origin)
    copy = init_workspace(Path(shutil.copytree(origin, folder, symlinks=True)), environment)
    shutil.copytree(
        before.state, copy.state, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(PLACE, "lock")
    )
    return copy


def all_files(workspace: Workspace) -> dict[str, Path]:
    """Every file of a workspace by its name; those of the state are below `.dreamd/`."""
    of_root = {str(path.relative_to(workspace.root)): path for path in workspace.root.rglob("*")}
    of_state = {f".dreamd/{path.relative_to(workspace.state)}": path for path in workspace.state.rglob("*")}
    return {name: path for name, path in sorted((of_root | of_state).items()) if path.is_file()}


def place_of(workspace: Workspace, name: str) -> Path:
    """The path of a file of this name; `.dreamd/` stands for the state."""
    return workspace.state / name[8:] if name.startswith(".dreamd/") else workspace.root / name
