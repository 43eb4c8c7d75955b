"""Existing memory: finds what people and agents wrote down about a project before dreamd. Writes nothing.

Layouts as of November 2026. Claude Code has `projects/<slug>/` for each folder it was started in: sessions, and
`memory/` with MEMORY.md and a file per topic, shared by all worktrees of a repository. Codex keeps the sessions of
all projects in `sessions/YYYY/MM/DD/`, and its memory of all of them in `memories/`: MEMORY.md has a part per task
group that names the folders it applies to, `rollout_summaries/` a file per session. A session belongs to a workspace
if it took place in a folder of that workspace.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path

from daemon.config.paths import global_root, home
from daemon.workspace.adoption import find_workspace
from state.errors import DreamdError
from state.stores.disk.packed_files import SUFFIX, opened_unpacked
from state.stores.disk.places import project_of
from state.stores.disk.workspace import Workspace
from state.stores.disk.worktree import removed_worktrees, repository_top, worktrees_of

LONGEST_FILE = 1 << 20
"""In bytes. Memory that an agent reads as a whole is much shorter."""
MOST_FILES = 2_000
_MOST_LOOKED_AT = 50_000
# Claude Code cuts longer names of folders here and appends a digest.
_LONGEST_SLUG = 200
# The head of a session may include all of its initial instructions.
_HEAD_BYTES = 256 * 1024

# The header that Codex writes above a summary, and the row of its memory that names the folders of a task group.
CODEX_HEADER = re.compile(rb"(?:thread_id|updated_at|rollout_path|rollout_summary_file|cwd|git_branch): ")
CODEX_APPLIES = b"applies_to:"
LONGEST_HEADER = 60  # lines

_CLAUDE, _CODEX, _GEMINI = ("claude-code",), ("codex",), ("gemini",)
# Where an agent keeps what applies to all projects: the environment variable for the folder, its default, and the
# file of instructions.
_HOMES: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (_CLAUDE, "CLAUDE_CONFIG_DIR", ".claude", "CLAUDE.md"),
    (_CODEX, "CODEX_HOME", ".codex", "AGENTS.md"),
    (_GEMINI, "", ".gemini", "GEMINI.md"),
)
# Instructions of a project, and the agents that read them.
_OF_A_PROJECT = (
    ("CLAUDE.md", _CLAUDE),
    ("CLAUDE.local.md", _CLAUDE),
    (".claude/CLAUDE.md", _CLAUDE),
    ("AGENTS.md", ("codex", "cursor", "opencode", "vscode")),
    ("GEMINI.md", _GEMINI),
)


class Kind(StrEnum):
    """The kind of a file: instructions written by people, memory written by an agent, or sessions."""

    INSTRUCTIONS = "instructions"
    MEMORY = "memory"
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True)
class ExistingMemory:
    """One file, or files of one kind in one folder. `agents` read or wrote it.

    `own`: only this user can have put it there; a file of a project may have come with the project. `more`: further
    files, the oldest, are not listed.
    """

    kind: Kind
    agents: tuple[str, ...]
    path: Path
    files: tuple[Path, ...]
    size_bytes: int
    own: bool
    more: bool = False


Belongs = Callable[[str], bool]


def existing_memory(workspace: Workspace, environment: Mapping[str, str]) -> tuple[ExistingMemory, ...]:
    """Return the existing memory for a workspace; for the global one, what this user wrote for all projects.

    Only the heads of sessions are read. Unreadable files are skipped. A file found twice counts once.
    """
    files = existing_files(workspace, environment)
    if _is_global(workspace, environment):
        return files
    return (*files, *_sessions(project_of(workspace), environment, belonging(workspace, environment)))


def sessions_of_removed(workspace: Workspace, environment: Mapping[str, str]) -> tuple[ExistingMemory, ...]:
    """Return the sessions in folders that are gone and may have been worktrees of this workspace.

    They are those that git still lists, and those named like the workspace: `shop-fix` beside `shop`. Nothing proves
    that they belong to it, so they are no part of `existing_memory`.
    """
    root = project_of(workspace)
    removed = removed_worktrees(repository_top(root) or root)

    def may_belong(folder: str) -> bool:
        listed = any(Path(folder).is_relative_to(top) for top in removed)
        return (listed or folder.startswith(f"{root}-")) and not os.path.lexists(folder)

    return () if _is_global(workspace, environment) else _sessions(root, environment, may_belong)


def _sessions(root: Path, environment: Mapping[str, str], belongs: Belongs) -> tuple[ExistingMemory, ...]:
    claude, codex, _ = _homes(environment)
    return (*_sessions_of_claude(root, claude / "projects", belongs), *_rollouts(codex, belongs))


def existing_files(workspace: Workspace, environment: Mapping[str, str]) -> tuple[ExistingMemory, ...]:
    """Return the existing memory without sessions."""
    homes, root, found = _homes(environment), project_of(workspace), list[ExistingMemory]()
    claude, codex = homes[:2]
    if _is_global(workspace, environment):
        for folder, (agents, _, _, name) in zip(homes, _HOMES, strict=True):
            found += _found(Kind.INSTRUCTIONS, agents, folder / name, [folder / name], own=True)
        found += _found(Kind.MEMORY, _CODEX, codex / "memories", [codex / "memories" / "memory_summary.md"])
    else:
        for name, agents in _OF_A_PROJECT:
            found += _found(Kind.INSTRUCTIONS, agents, root / name, [root / name])
        found += _memory_of_claude(root, claude, home(environment))
        found += _memory_of_codex(codex / "memories", belonging(workspace, environment))
    known = dict[str, ExistingMemory]()
    for one in found:  # CLAUDE.md is often a link to AGENTS.md; its readers are then combined
        real = os.path.realpath(one.path)
        before = known.get(real) if one.kind is Kind.INSTRUCTIONS else None
        known[real] = replace(before, agents=(*before.agents, *one.agents)) if before else one
    return tuple(known.values())


def _is_global(workspace: Workspace, environment: Mapping[str, str]) -> bool:
    return workspace.root == Path(os.path.realpath(global_root(environment)))


def belonging(workspace: Workspace, environment: Mapping[str, str]) -> Belongs:
    """Return a test for folders of this workspace: the root, a folder below, or in a worktree that shares it."""

    @cache
    def belongs(folder: str) -> bool:
        with suppress(DreamdError, OSError, ValueError):
            return folder.startswith("/") and find_workspace(Path(folder), environment).root == workspace.root
        return False

    return belongs


def slug(folder: Path) -> str:
    """Return Claude Code's name of a folder: a hyphen for each UTF-16 unit that is no ASCII letter or digit."""
    return re.sub(r"[^a-zA-Z0-9]", lambda sign: "-" * (1 + (ord(sign[0]) > 0xFFFF)), str(folder))


def _homes(environment: Mapping[str, str]) -> tuple[Path, ...]:
    named = [(environment.get(variable, ""), usual) for _, variable, usual, _ in _HOMES]
    return tuple(Path(path) if path.startswith("/") else home(environment) / usual for path, usual in named)


def _memory_of_claude(root: Path, claude: Path, own: Path) -> Iterator[ExistingMemory]:
    """Yield the memory of the repository and of the workspace's folder, or that in the folder the user configured.

    Settings of a project cannot configure another folder, because they may have come with the project.
    """
    settings = _parsed(_head(claude / "settings.json"))
    moved = settings.get("autoMemoryDirectory") if isinstance(settings, dict) else None
    if isinstance(moved, str) and moved.startswith(("/", "~/")):
        folders = [own / moved[2:] if moved.startswith("~/") else Path(moved)]
    else:
        tops = dict.fromkeys((root, repository_top(root) or root))
        matching = [_named_like(claude / "projects", top) for top in tops]
        # If the names of two folders are cut to the same text, nobody can tell which is meant.
        folders = [found[0] / "memory" for found in matching if len(found) == 1]
    for folder in folders:
        files = sorted(_entries(folder, ".md"), key=lambda path: (path.name != "MEMORY.md", path.name))
        yield from _found(Kind.MEMORY, _CLAUDE, folder, files)


def _named_like(projects: Path, top: Path) -> list[Path]:
    name = slug(top)
    if len(name) <= _LONGEST_SLUG:
        return [projects / name]
    return [folder for folder in _entries(projects) if folder.name.startswith(f"{name[:_LONGEST_SLUG]}-")]


def _memory_of_codex(folder: Path, belongs: Belongs) -> Iterator[ExistingMemory]:
    handbook, summaries = folder / "MEMORY.md", _entries(folder / "rollout_summaries", ".md")
    files = [handbook] if applies(_head(handbook, LONGEST_FILE).split(b"\n"), belongs) else []
    files += [path for path in summaries if belongs(folder_of_summary(_head(path, 4_096)))]
    return _found(Kind.MEMORY, _CODEX, folder, files)


def applies(lines: Iterable[bytes], belongs: Belongs) -> bool:
    """Return whether any of these lines of Codex's memory says that a task group belongs to this project."""
    for line in lines:
        named = re.search(r"cwd=([^;]*)", line.decode(errors="replace")) if line.startswith(CODEX_APPLIES) else None
        folders = re.split(r",| and ", named[1]) if named else ()
        if any(belongs(folder.strip(" \t\r`'\"")) for folder in folders):
            return True
    return False


def folder_of_summary(head: bytes) -> str:
    """Return the folder of the session whose summary has this head; "" if it does not say."""
    for line in head.split(b"\n")[:LONGEST_HEADER]:
        if not CODEX_HEADER.match(line):
            break
        if line.startswith(b"cwd: "):
            return line.removeprefix(b"cwd: ").decode(errors="replace").strip()
    return ""


def _sessions_of_claude(root: Path, projects: Path, belongs: Belongs) -> Iterator[ExistingMemory]:
    """Yield the sessions of each folder; names of folders may collide, so the folder in the session decides."""
    main = repository_top(root) or root
    tops = (root, *worktrees_of(main), *removed_worktrees(main))
    cuts = tuple({slug(top)[:_LONGEST_SLUG] for top in tops})
    for folder in _entries(projects):
        if folder.name.startswith(cuts):
            files = [path for path in _entries(folder, ".jsonl") if belongs(_folder_of_session(path))]
            files.sort(key=lambda path: (status := _status(path)) is not None and status.st_mtime, reverse=True)
            yield from _found(Kind.SESSIONS, _CLAUDE, folder, files)


def _rollouts(codex: Path, belongs: Belongs) -> Iterator[ExistingMemory]:
    """Yield Codex's sessions, newest first: folders and files are named by time."""

    def below(folder: Path, depth: int = 3) -> Iterator[Path]:
        for path in reversed(_entries(folder)):
            if path.name.startswith("rollout-") and path.name.removesuffix(SUFFIX).endswith(".jsonl"):
                yield path
            elif depth and path.name.isdigit():
                yield from below(path, depth - 1)

    for folder in (codex / "sessions", codex / "archived_sessions"):
        mine = (path for path in islice(below(folder), _MOST_LOOKED_AT) if belongs(_folder_of_session(path)))
        yield from _found(Kind.SESSIONS, _CODEX, folder, mine)


def _found(
    kind: Kind, agents: tuple[str, ...], place: Path, paths: Iterable[Path], *, own: bool = False
) -> Iterator[ExistingMemory]:
    """Yield the regular files among the paths as one item, if there are any."""
    found = {path: status.st_size for path in islice(paths, MOST_FILES + 1) if (status := _status(path)) is not None}
    if files := tuple(found)[:MOST_FILES]:
        size = sum(found[path] for path in files)
        yield ExistingMemory(kind, agents, place, files, size, own, len(found) > MOST_FILES)


def _folder_of_session(path: Path) -> str:
    """Return the folder in which a session began, from its first records; "" if none says it."""
    for line in _head(path).split(b"\n"):
        record = _parsed(line) if b'"cwd"' in line else None
        for one in (record, record.get("payload")) if isinstance(record, dict) else ():
            if isinstance(one, dict) and isinstance(folder := one.get("cwd"), str):
                return folder
    return ""


def _head(path: Path, most: int = _HEAD_BYTES) -> bytes:
    """Return the first bytes of a regular file; nothing for anything else."""
    with suppress(DreamdError, OSError, ValueError), opened_unpacked(path) as file:
        return file.read(most)
    return b""


def _parsed(line: bytes) -> object:
    with suppress(ValueError, RecursionError):
        return json.loads(line)
    return None


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a regular file; None for anything else."""
    with suppress(OSError, ValueError):
        status = path.stat()
        return status if stat.S_ISREG(status.st_mode) else None
    return None


def _entries(folder: Path, suffix: str = "") -> list[Path]:
    """Return the readable entries of a folder, sorted by name."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(one.path) for one in islice(entries, _MOST_LOOKED_AT) if one.name.endswith(suffix))
    return []
