"""Arguments that commands share: the workspace, the configuration, --json; and the caller of operations."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from daemon.config.paths import global_root
from daemon.workspace.adoption import (
    find_workspace,
    init_workspace,
    open_global_workspace,
    open_workspace,
    require_project,
    shared_folder,
    shared_workspace,
    workspace_at,
)
from state.errors import UsageError
from state.stores.disk.workspace import SCRATCH, Workspace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from daemon.api.dispatch import Caller
    from daemon.config.settings import Config
    from daemon.dream.progress import Step

_EVERYWHERE = ("-g", "--global")
_OR_GLOBAL = "--or-global"


def parser_of(prog: str, description: str | None) -> "argparse.ArgumentParser":
    """Return a parser that raises UsageError, so that its errors are reported like all others."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> "NoReturn":
            raise UsageError(f"{message}", f"see '{self.prog} --help'")

    return Parser(prog=prog, description=description, allow_abbrev=False)


def as_arguments(error: UsageError, parser: "argparse.ArgumentParser") -> UsageError:
    """Return the error, which names fields of a request, by the names that these have on the command line."""
    from daemon.api.operations.operation import FieldsError

    fields: dict[str, str] = dict(error.details["fields"])  # type: ignore[call-overload]
    return FieldsError({_argument(parser, field): problem for field, problem in fields.items()})


def _argument(parser: "argparse.ArgumentParser", field: str) -> str:
    """Return the argument that a field of a request was made of: the one of its name, else the only one in place."""
    name = field.partition(".")[0].removesuffix("_id")
    actions = parser._actions  # noqa: SLF001 - argparse shows them in no other way
    meant = [one for one in actions if one.dest == name] or [one for one in actions if not one.option_strings]
    if len(meant) != 1:
        return field
    return meant[0].option_strings[-1] if meant[0].option_strings else str(meant[0].metavar or meant[0].dest)


def plain_arguments(
    words: "Sequence[str]", options: "Mapping[str, Callable[[str], object]]", **defaults: object
) -> SimpleNamespace | None:
    """Read what argparse would read of these words, in a fraction of the time that it takes to load.

    `text` are the words that are no options; the workspace, --global, the configuration and --json (if it has a
    default) are options besides those named. None, and argparse has to read them, where a word is anything else.
    """
    readers = {"--workspace": Path, "-w": Path, "--config": Path, **options}
    found: dict[str, object] = {
        "workspace": None,
        "everywhere": False,
        "or_global": False,
        "config": None,
        **defaults,
    }
    text, left = list[str](), iter(words)
    for word in left:
        if not word.startswith("-"):
            text.append(word)
        elif word == "--json" and "json" in defaults:
            found["json"] = True
        elif word in _EVERYWHERE:
            found["everywhere"] = True
        elif word == _OR_GLOBAL:
            found["or_global"] = True
        else:
            value = next(left, "-")
            if word not in readers or value.startswith("-"):
                return None
            try:
                found["workspace" if word == "-w" else word[2:].replace("-", "_")] = readers[word](value)
            except ValueError:
                return None
    return SimpleNamespace(text=text, **found)


def names_workspace(parser: "argparse.ArgumentParser") -> None:
    """Add `--workspace`, `--global`, `--or-global` and `--config`."""
    parser.add_argument(
        "-w",
        "--workspace",
        type=Path,
        metavar="DIR",
        help="the workspace (else $DREAMD_WORKSPACE, else the nearest one from the working directory up)",
    )
    parser.add_argument(
        *_EVERYWHERE,
        dest="everywhere",
        action="store_true",
        help="your global workspace, of what is true in every project, instead of the one here",
    )
    parser.add_argument(
        _OR_GLOBAL,
        action="store_true",
        help="your global workspace where there is none from the working directory up",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")


def names_folder(parser: "argparse.ArgumentParser") -> None:
    """Add the workspace as the first argument, or as an option."""
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the workspace")
    names_workspace(parser)


def takes_json(parser: "argparse.ArgumentParser") -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def takes_workspace(parser: "argparse.ArgumentParser") -> None:
    """Add `--workspace`, `--global`, `--config` and `--json`."""
    names_workspace(parser)
    takes_json(parser)


def takes_folder(parser: "argparse.ArgumentParser") -> None:
    """Add what `takes_workspace` adds; the workspace may be the first argument too."""
    names_folder(parser)
    takes_json(parser)


def named_folder(arguments: "argparse.Namespace") -> Path | None:
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


def workspace_of(arguments: "argparse.Namespace") -> Workspace:
    """Return the workspace that is meant; of a worktree without one, its repository's. Raise UsageError for none."""
    folder = named_folder(arguments)
    if arguments.everywhere:
        return open_global_workspace()
    if folder is None:
        try:
            return find_workspace(Path.cwd())
        except UsageError:
            if not arguments.or_global:
                raise
            return open_global_workspace()
    return shared_workspace(folder) or open_workspace(folder)


def workspace_for_dream(arguments: "argparse.Namespace") -> Workspace:
    """Return the workspace that is meant; a folder that has a memory and is no workspace yet becomes one.

    Raise UsageError when that is the home folder, or one of the system's.
    """
    if arguments.everywhere:
        return workspace_of(arguments)
    named = named_folder(arguments) or Path.cwd()
    root = shared_folder(named) or named
    has_memory = any((root / name).is_file() for name in ("MEMORY.md", SCRATCH))
    if has_memory and workspace_at(root) is None and not _found_in(root):
        require_project(root)
        return init_workspace(root)
    return workspace_of(arguments)


def _found_in(root: Path) -> bool:
    """Return whether its memory may be somebody else's, and 'dreamd init' is to show it first."""
    from daemon.cli.found_memory import found_in

    return bool(found_in(root))


def config_of(arguments: "argparse.Namespace") -> "Config":
    """Return the configuration. Raise ConfigError."""
    from daemon.config.settings import load

    return load(arguments.config)


def caller_of(
    arguments: "argparse.Namespace", command: str, on_step: "Callable[[Step], None] | None" = None
) -> "Caller":
    """Return the caller of an operation; each notice goes to stderr once."""
    from daemon.api.dispatch import Caller
    from daemon.cli.terminal import say
    from daemon.config.layers import configured_here

    shown = set[str]()

    def on_notice(notice: str) -> None:
        if notice not in shown:
            shown.add(notice)
            say(f"notice: {notice}")

    workspace = workspace_of(arguments)
    own_config = arguments.config is not None or configured_here(os.environ)
    return Caller(workspace, config_of(arguments), f"dreamd {command}", on_step or _ignore, on_notice, own_config)


def _ignore(_: "Step") -> None:
    """Ignore a step, for commands that show no progress."""
