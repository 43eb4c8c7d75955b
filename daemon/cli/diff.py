"""Show what changed between two versions of MEMORY.md: the last two, N-1 and N, or A and B."""

import argparse
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import say, show_json
from daemon.cli.unified import show_unified, unified
from state.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from daemon.compose import Store


def add(parser: argparse.ArgumentParser) -> None:
    """Between which versions."""
    parser.add_argument(
        "versions", nargs="*", type=int, metavar="N", help="one version (with the one before), or two"
    )
    parser.add_argument("--file", action="store_true", help="between the last version and the file as it is")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the difference."""
    if len(arguments.versions) > 2 or (arguments.file and arguments.versions):
        raise UsageError("name one version, or two, or --file; see 'dreamd diff --help'")
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.compose import visited

    with visited(workspace, config) as store:
        old, new, before, after = _pair(store, arguments)
    difference = unified(before, after, old, new)
    if arguments.json:
        show_json({"from": old, "to": new, "diff": difference})
    elif difference:
        show_unified(difference)
    else:
        say(f"no difference between {old} and {new}")
    return 0


def _pair(store: "Store", arguments: argparse.Namespace) -> tuple[str, str, str, str]:
    """The names of two texts, then the texts."""
    last = store.lineage.last_version()
    if not last:
        raise NotFoundError("there is no version yet; 'dreamd dream' makes the first")
    if arguments.file:
        content = store.disk.read_if_there(store.workspace.document) or b""
        return _name(last), "as it is", store.journal.text(last), content.decode(errors="replace")
    numbers = arguments.versions or [last]
    if len(numbers) == 2:
        first, second = numbers
        return _name(first), _name(second), store.journal.text(first), store.journal.text(second)
    number = numbers[0]
    after = store.journal.text(number)
    if number == 1:
        return "before dreamd", _name(1), store.journal.record(1).before, after
    return _name(number - 1), _name(number), store.journal.text(number - 1), after


def _name(number: int) -> str:
    return f"version {number}"
