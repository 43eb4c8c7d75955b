"""Read transcripts into the long-term memory: Claude Code and Codex JSONL, OpenAI-style messages, Markdown, text."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import counted, out, say, show_json, tell_notices, working
from state.errors import NothingToDoError

if TYPE_CHECKING:
    from daemon.compose import Store


@dataclass(frozen=True, slots=True)
class Ingested:
    """What was read. `files` were there, `unread` of them could not be read at all; `crystals` are new."""

    files: int
    unread: int
    turns: int
    crystals: int
    problems: tuple[str, ...]


def add(parser: argparse.ArgumentParser) -> None:
    """What to read."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, or folders of them")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read what is new in them; 1 when nothing could be read."""
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.compose import owned

    with owned(workspace, config, "dreamd ingest") as store:
        with working("reading…") as tell:
            done = _ingest(store, arguments.paths, tell)
        tell_notices(store.notices)
    for problem in done.problems:
        say(f"problem: {problem}")
    if arguments.json:
        show_json(done)
    else:
        read = f"{counted(done.turns, 'turn')} of {counted(done.files - done.unread, 'file')}"
        out(f"{read}, {counted(done.crystals, 'new crystal')}")
    return 1 if done.unread == done.files else 0


def _ingest(store: "Store", paths: Iterable[Path], tell: Callable[[str], None]) -> Ingested:
    from daemon.absorbing import absorb_transcripts
    from daemon.compose import clock

    before, files, unread, turns, problems = store.crystals.count(), 0, 0, 0, list[str]()
    for path in _files(paths):
        files += 1
        if not path.exists():
            unread += 1
            problems.append(f"{path} does not exist; check the path")
            continue
        found = absorb_transcripts(store, [path], clock(), tell)
        turns += found.turns
        problems += found.problems
        unread += bool(found.problems and not found.turns)
    if not files:
        raise NothingToDoError("there are no files in these folders; name the files or another folder")
    if waiting := store.crystals.vectors.waiting()[0]:
        tell(f"{counted(waiting, 'crystal')} to embed")
        store.embed()
    return Ingested(files, unread, turns, store.crystals.count() - before, tuple(problems))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, and those below the folders; hidden ones only where they are named."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for below in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in below.relative_to(path).parts)
            if below.is_file() and not hidden:
                yield below
