"""Seed: handles what was in a folder before it became a workspace.

A MEMORY.md of the owner's is backed up and becomes crystals, once. What may have come with the folder is a
stranger's: its MEMORY.md and notes are renamed, and search shows its words as a stranger's.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from daemon.config.settings import Config
from daemon.ingest.existing_memory import belonging
from daemon.ingest.formats.reading import readings
from daemon.ingest.memory_files import absorb_memory_file
from daemon.ingest.notes import strangers_crystal
from daemon.ingest.transcripts import matching_files, transcript_files
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store, utc_now
from state.document.document import parse
from state.document.redaction import redacted_lines
from state.document.seed import seed_crystals
from state.errors import DreamdError
from state.scratch import Note
from state.stores.database.connection import transaction
from state.stores.database.moments import to_text
from state.stores.disk.disk import Disk, leads_elsewhere
from state.stores.disk.strangers import accept, strangers_files
from state.stores.disk.tracking import Tracking, tracking
from state.stores.disk.workspace import STATE_FOLDER, Workspace
from state.stores.history.inbox import NoteInbox, open_log
from state.stores.history.lineage import last_text
from state.text.words import counted
from state.trust import Trust

_FLAG = "seed_migrated"
_ASIDE = ".seed-backup"
# So many transcripts, and turns of each, show what they are.
_MOST_OPENED, _MOST_TURNS = 3, 2


@dataclass(frozen=True, slots=True)
class Found:
    """What was in a folder before: `about` says how much of what it is, `lines` how it begins."""

    about: str
    lines: tuple[str, ...]
    paths: tuple[Path, ...]


def migrate(store: Store, now: datetime) -> int | None:
    """Back up a MEMORY.md without the schema and make crystals of it, once; return how many, None if not due.

    The backup is never overwritten. The file itself stays: the first dream appends below it.
    """
    connection = store.connection
    if store.meta.get(_FLAG) is not None or store.lineage.last_version():
        return None
    text, _ = read_document(store.workspace, store.connection)
    if not text.strip() or parse(text).has_schema:
        return None
    if store.memory.disk.read_optional(store.workspace.backup) is None:
        store.memory.disk.write_new(store.workspace.backup, text.encode(), mode=0o644)
    crystals = seed_crystals(redacted_lines(text, store.config.redaction), now)
    with transaction(connection):
        store.crystals.learn(crystals)
        store.meta.put(_FLAG, to_text(now))
    return len(crystals)


# ------------------------------------------------------------ what came with the folder


def came_with(root: Path, config: Config) -> tuple[Found, ...]:
    """Return what may have come with a folder that is no workspace, and so may be somebody else's.

    A MEMORY.md alone is its owner's, unless a dreamd has written it, a workspace's id lies beside it, or git tracks
    it.
    """
    if not root.is_dir():
        return ()
    root = Path(os.path.realpath(root))
    workspace, disk = Workspace(root, root), Disk(root)
    notes = [note for path in _logs(workspace) for note in _notes_in(disk, path)]
    genome = _rows((disk.read_optional(workspace.genome) or b"").decode(errors="replace"))
    feed = _rows((disk.read_optional(workspace.economics) or b"").decode(errors="replace"))
    chats = [one for one in sorted(matching_files(workspace.root, config)) if _is_inside(one, workspace.root)]
    others = [
        (counted(len(notes), "note"), "memory/scratch.md", tuple(note.text for note in notes), _logs(workspace)),
        (counted(len(genome), "row") + " of rules", "GENOME.md", genome, [workspace.genome]),
        (counted(len(feed), "row") + " of earnings", "memory/economics.json", feed, [workspace.economics]),
        (counted(len(chats), "file") + " of talk", "transcripts", tuple(_openings(chats)), chats),
    ]
    found = [Found(f"{name}: {about}", lines, tuple(paths)) for about, name, lines, paths in others if lines]
    text = (disk.read_optional(workspace.document) or b"").decode(errors="replace")
    is_signed = os.path.lexists(root / STATE_FOLDER) or parse(text).has_schema
    if (rows := _rows(text)) and (found or is_signed or tracking(workspace.document) is not Tracking.NO):
        found.insert(0, Found(f"MEMORY.md: {counted(len(rows), 'row')}", rows, (workspace.document,)))
    return tuple(found)


def _rows(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if line.strip())


def _logs(workspace: Workspace) -> list[Path]:
    """Return scratch.md and its former versions, as far as they are there."""
    inbox = NoteInbox(workspace)
    return [path for path in (*inbox.displaced().values(), workspace.scratch) if os.path.lexists(path)]


def _notes_in(disk: Disk, path: Path) -> list[Note]:
    with open_log(disk, path) as log:
        return [one.note for one in log.entries(0, log.size)]


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root) and not leads_elsewhere(path, root)


def _openings(paths: Iterable[Path]) -> Iterator[str]:
    """Yield how each transcript begins: its first turns, or its name if it cannot be read."""
    for place, path in enumerate(paths):
        turns = list[str]()
        if place < _MOST_OPENED:
            with suppress(DreamdError):
                first = (turn for reading in islice(readings(path), 1) for turn in reading.turns)
                turns = [" ".join(turn.text.split()) for turn in islice(first, _MOST_TURNS)]
        yield f"{path.name}: {' / '.join(turns)}" if turns else path.name


def brought(project: Path, root: Path, config: Config) -> None:
    """Copy what was in a repository's tree before into its new memory; the tree stays as it is.

    A glob of its owner's may find transcripts under names that the state has: these are left out.
    """
    tree, own = Workspace(project, project), Workspace(root, root)
    chats = [one for one in matching_files(project, config) if _is_inside(one, project)]
    for path in (tree.document, tree.genome, tree.economics, *_logs(tree), *chats):
        target = root / path.relative_to(project)
        if path.is_file() and _is_inside(path, project) and not own.is_state(target):
            for folder in reversed(target.relative_to(root).parents[:-1]):
                own.disk().make_folder(root / folder)
            own.disk().write_atomic(target, Disk(project).read_bytes(path))


def set_aside(root: Path) -> dict[Path, Path]:
    """Rename a stranger's MEMORY.md and notes; map their paths to the new ones.

    This happens before the workspace exists, so that no kill leaves them where they would count as the owner's.
    """
    workspace, moved = Workspace(Path(os.path.realpath(root)), root), dict[Path, Path]()
    for path in (workspace.document, *_logs(workspace)):
        if path.exists():
            free = path.with_name(f"{path.name}{_ASIDE}")
            while os.path.lexists(free):
                free = free.with_name(f"{free.name}-earlier")
            Disk(workspace.root).rename(path, free)
            moved[path] = free
    return moved


def take_in(store: Store) -> int:
    """Make crystals of a stranger's MEMORY.md, notes and rules, which search shows as a stranger's.

    Return how many are new. Transcripts are read with the next dream, as always.
    """
    workspace, new, notes = store.workspace, 0, list[Note]()
    for path in strangers_files(workspace):
        if _is_log(workspace, path):
            notes += _notes_in(store.memory.disk, path)
        elif path == workspace.genome or path.name.startswith(workspace.document.name):
            new += absorb_memory_file(store, path, Trust.WEB, belonging(workspace, os.environ)).crystals
    made = [strangers_crystal(store.connection, store.config, note, utc_now()) for note in notes]
    return new + sum(one.is_new for one in store.crystals.learn(crystal for crystal in made if crystal.text))


def _is_log(workspace: Workspace, path: Path) -> bool:
    """Return whether this is a log of notes that was set aside."""
    return path.parent == workspace.scratch.parent and _ASIDE in path.name


def take_over(workspace: Workspace, config: Config) -> tuple[list[Path], list[Path]]:
    """Make what came with the folder, or comes by git, the owner's; its notes become pending.

    Return these files, and a former MEMORY.md that is to be read again as the owner's; before the first dream it gets
    its name back. Transcripts are read again by the next dream.
    """
    disk, logs = workspace.disk(), [one for one in _logs(workspace) if tracking(one) is not Tracking.NO]
    others = [workspace.genome, workspace.economics, *transcript_files(workspace, config)]
    tracked = [one for one in others if _is_inside(one, workspace.root) and tracking(one) is not Tracking.NO]
    came = strangers_files(workspace)
    logs += [one for one in came if _is_log(workspace, one)]
    notes = [note for path in logs for note in _notes_in(disk, path)]
    NoteInbox(workspace, disk).file(note._replace(text=config.redaction.of(note.text)) for note in notes)
    accept(workspace, tracked)
    again = [one for one in came if one.name.startswith(workspace.document.name)]
    if again and not workspace.document.exists() and not last_text(workspace.database):
        disk.rename(again.pop(), workspace.document)
        again.append(workspace.document)
    return list(dict.fromkeys([*came, *tracked])), again
