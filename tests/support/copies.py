"""Copies of a workspace with its state, each a workspace of its own."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from daemon.workspace.adoption import init_workspace, open_workspace
from state.stores.disk.places import PLACE
from state.stores.disk.workspace import Workspace


def copy_of(origin: Path, folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Copy folder and state of the workspace in `origin`, which must belong to these tests."""
    before = open_workspace(origin)
    copy = init_workspace(Path(shutil.copytree(origin, folder, symlinks=True)), environment)
    shutil.copytree(
        before.state, copy.state, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(PLACE, "lock")
    )
    return copy


def all_files(workspace: Workspace) -> dict[str, Path]:
    """Return every file of a workspace by name; files of its state are named `.dreamd/…`."""
    of_root = {str(path.relative_to(workspace.root)): path for path in workspace.root.rglob("*")}
    of_state = {f".dreamd/{path.relative_to(workspace.state)}": path for path in workspace.state.rglob("*")}
    return {name: path for name, path in sorted((of_root | of_state).items()) if path.is_file()}


def place_of(workspace: Workspace, name: str) -> Path:
    """Return the path of the file with this name, where `.dreamd/` stands for the state folder."""
    return workspace.state / name[8:] if name.startswith(".dreamd/") else workspace.root / name
