"""Parsing: argparse with errors like all others, and the arguments that commands share, with what they mean."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from daemon.cli.terminal import columns, say
from daemon.config.paths import global_root
from daemon.workspace.adoption import find_workspace, open_global_workspace, open_workspace, shared_folder
from state.errors import DreamdError, UsageError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.api.dispatch import Caller
    from daemon.config.settings import Config
    from daemon.dream.progress import Step
    from state.stores.git.exclude import Excluded


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, and takes options between the words of an argument too."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}", f"see '{self.prog} --help'")


class Formatter(argparse.HelpFormatter):
    """Help as wide as the terminal; a paragraph of what is described stays one, and a list a list.

    argparse itself would import shutil and five compressors to learn the width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(one if "\n  " in one else fill(one, width, indent) for one in paragraphs)


def parser_of(prog: str, description: str | None) -> Parser:
    """Return a parser of a command."""
    return Parser(prog=prog, description=description, allow_abbrev=False, formatter_class=Formatter)


def takes_config(parser: argparse.ArgumentParser) -> None:
    """Add `--config`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")


def takes_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def names_workspace(parser: argparse.ArgumentParser) -> None:
    """Add `--workspace`, `--global`, `--or-global` and `--config`."""
    parser.add_argument(
        "-w",
        "--workspace",
        type=Path,
        metavar="DIR",
        help="the workspace (else $DREAMD_WORKSPACE, else the nearest one from the working directory up)",
    )
    parser.add_argument(
        "-g",
        "--global",
        dest="everywhere",
        action="store_true",
        help="your global workspace, of what is true in every project, instead of the one here",
    )
    parser.add_argument(
        "--or-global", action="store_true", help="your global workspace where there is none from here up"
    )
    takes_config(parser)


def takes_workspace(parser: argparse.ArgumentParser) -> None:
    """Add the workspace as an option, and `--json`."""
    names_workspace(parser)
    takes_json(parser)


def takes_folder(parser: argparse.ArgumentParser) -> None:
    """Add what `takes_workspace` adds; the workspace may be the first argument too."""
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the workspace")
    takes_workspace(parser)


def named_folder(arguments: argparse.Namespace) -> Path | None:
    """Return the folder that was named, by argument, option or DREAMD_WORKSPACE."""
    folder: Path | None = getattr(arguments, "folder", None)
    option: Path | None = arguments.workspace
    if arguments.everywhere:
        if folder is not None or option is not None:
            raise UsageError(f"--global is a workspace, and {folder or option} is another one", "name one")
        return global_root(os.environ)
    if folder is not None and option is not None and folder.absolute() != option.absolute():
        raise UsageError(f"two workspaces are named, {folder} and {option}", "name one")
    variable = os.environ.get("DREAMD_WORKSPACE")
    return folder or option or (Path(variable) if variable else None)


def workspace_of(arguments: argparse.Namespace) -> Workspace:
    """Return the workspace that is meant; of a worktree without one, its repository's. Raise UsageError for none."""
    folder = named_folder(arguments)
    if arguments.everywhere:
        return open_global_workspace()
    if folder is not None:
        return open_workspace(shared_folder(folder) or folder)
    try:
        return find_workspace(Path.cwd())
    except UsageError:
        if not arguments.or_global:
            raise
        return open_global_workspace()


def workspace_if_any(arguments: argparse.Namespace) -> Workspace | None:
    """Return the workspace that is meant; None outside of every one. Raise UsageError if one is named and is none."""
    try:
        return workspace_of(arguments)
    except UsageError:
        if named_folder(arguments) is not None:
            raise
        return None


def told_git(tell: "Callable[[], Excluded]") -> "Excluded":
    """Return what changed in a repository's exclude file; a failure is only said."""
    from state.stores.git.exclude import Excluded

    try:
        return tell()
    except DreamdError as error:
        say(f"git: {error.what}")
        return Excluded()


def config_of(arguments: argparse.Namespace) -> "Config":
    """Return the configuration. Raise ConfigError."""
    from daemon.config.settings import load

    return load(arguments.config)


def caller_of(
    arguments: argparse.Namespace, command: str, on_step: "Callable[[Step], None] | None" = None
) -> "Caller":
    """Return the caller of an operation; each notice goes to stderr once."""
    from daemon.api.dispatch import Caller
    from daemon.config.layers import configured_here

    shown = set[str]()

    def on_notice(notice: str) -> None:
        if notice not in shown:
            shown.add(notice)
            say(f"notice: {notice}")

    own_config = arguments.config is not None or configured_here(os.environ)
    return Caller(
        workspace_of(arguments),
        config_of(arguments),
        f"dreamd {command}",
        on_step or (lambda _: None),
        on_notice,
        own_config,
    )


def as_arguments(error: UsageError, parser: argparse.ArgumentParser) -> UsageError:
    """Return the error, which names fields of a request, by the names that these have on the command line."""
    from daemon.api.operations.operation import FieldsError

    fields: dict[str, str] = dict(error.details["fields"])  # type: ignore[call-overload]
    return FieldsError({_argument(parser, field): problem for field, problem in fields.items()})


def _argument(parser: argparse.ArgumentParser, field: str) -> str:
    """Return the argument that a field of a request was made of: the one of its name, else the only one in place."""
    name = field.partition(".")[0].removesuffix("_id")
    actions = parser._actions  # noqa: SLF001 - argparse shows them in no other way
    meant = [one for one in actions if one.dest == name] or [one for one in actions if not one.option_strings]
    if len(meant) != 1:
        return field
    return meant[0].option_strings[-1] if meant[0].option_strings else str(meant[0].metavar or meant[0].dest)
