"""Keep the lines of MEMORY.md as a block in an agent's own file: CLAUDE.md, AGENTS.md, GEMINI.md."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_workspace, workspace_of
from daemon.cli.terminal import out, say, show_json
from state.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.workspace.block_wishes import BlockStatus


def add(parser: argparse.ArgumentParser) -> None:
    """What to do with which file."""
    parser.add_argument("action", nargs="?", choices=("add", "remove"), help="without one the blocks are listed")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="such as CLAUDE.md; made if it is missing")
    parser.add_argument("--agent", default="", metavar="NAME", help="whose cap counts (else by the file's name)")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """List, add or remove; 1 when a block was left where it is."""
    if (arguments.action is None) is not (arguments.file is None):
        raise UsageError("'add' and 'remove' take a file", "see 'dreamd block --help'")
    if arguments.action is None:
        from daemon.workspace.block_wishes import block_statuses

        return _shown(block_statuses(workspace_of(arguments)), as_json=arguments.json)
    caller = caller_of(arguments, "block")
    from daemon.api.operations.setup import LONGEST_PATH, AddBlock, RemoveBlock, block_add, block_remove

    file = os.path.abspath(arguments.file)  # noqa: PTH100 - `..` is taken out, links are not
    if len(file) > LONGEST_PATH or file.encode(errors="replace").decode() != file:
        raise UsageError("the file's name is too long, or not UTF-8", "give it another one")
    if arguments.action == "add":
        reply = caller.ask(block_add, AddBlock(file=file, agent=arguments.agent))
    else:
        reply = caller.ask(block_remove, RemoveBlock(file=file))
    if reply.problem:
        say(reply.problem)
    return _shown(reply.blocks, as_json=arguments.json) or int(bool(reply.problem))


def _shown(blocks: "Sequence[BlockStatus]", *, as_json: bool) -> int:
    if as_json:
        show_json(blocks)
        return 0
    for one in blocks:
        out(described(one), "red" if one.problem else "")
    if not blocks:
        out("no file has a block of this memory")
    return 0


def described(block: "BlockStatus") -> str:
    """A file with a block in one line."""
    if block.problem:
        return f"{block.path}: {block.problem}; {block.advice}"
    left_out = f", {block.left_out} of MEMORY.md left out" if block.left_out else ""
    sizes = f"{block.lines:,} lines, {block.bytes:,} bytes"
    return f"{block.path} for {block.agent}: {sizes}, {block.share:.0%} of what it takes{left_out}"
