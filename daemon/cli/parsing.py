"""Parsing: commands as functions with arguments, argparse with our errors, and the workspace that is meant."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from daemon.cli.terminal import columns, show_notices, wrapped
from daemon.config.layers import new_memories
from daemon.config.paths import global_root
from daemon.workspace.adoption import (
    find_or_make,
    find_workspace,
    open_global_workspace,
    open_workspace,
    repository_of,
    require_wanted,
)
from state.errors import UsageError
from state.stores.disk.places import project_of
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller
    from daemon.config.settings import Config
    from daemon.dream.progress import Step

Argument: TypeAlias = Mapping[str, Any]
"""The parameters of `add_argument`, with the names as `flags`; `type` may be a key of `_READERS`."""
Arguments: TypeAlias = "Iterable[Argument | tuple[Argument, ...]]"
"""Arguments; those in a tuple exclude each other."""


# So many characters of choices stand in the usage.
_ROOM_FOR_CHOICES = 30


def arg(*flags: str, **options: object) -> Argument:
    """Return an argument with these parameters of `add_argument`."""
    return {"flags": flags, **options}


CONFIG = arg("--config", type=Path, metavar="FILE", help="the configuration")
JSON = arg("--json", action="store_true", help="print the result as JSON")
NAMED = (
    arg(
        "-w", "--workspace", type=Path, metavar="DIR",
        help="the workspace or repository (else $DREAMD_WORKSPACE, else that of the working directory)",
    ),
    arg(
        "-g", "--global", dest="everywhere", action="store_true",
        help="your global workspace, of what is true in every project, instead of the one here",
    ),
    CONFIG,
)  # fmt: skip
WORKSPACE = (*NAMED, JSON)
# For commands that also take the workspace as their first argument.
FOLDER = (arg("folder", nargs="?", type=Path, metavar="DIR", help="the workspace"), *WORKSPACE)


class Command(NamedTuple):
    """A command: its arguments, and the function that runs it, with the help as docstring; it returns the status."""

    run: Callable[[argparse.Namespace], int]
    arguments: Arguments


def command(*arguments: Argument | tuple[Argument, ...]) -> Callable[[Callable[[argparse.Namespace], int]], Command]:
    """Make a function a command with these arguments."""
    return lambda run: Command(run, arguments)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, and allows options between positional arguments."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of a command; options may stand between positional arguments, even optional ones."""
        if any(word.startswith("-") for word in words):
            return self.parse_intermixed_args(words)
        return self.parse_args(words)  # the same result, much faster

    def error(self, message: str) -> NoReturn:
        _, unknown, words = message.partition("unrecognized arguments: ")
        option = next((word.partition("=")[0] for word in words.split() if word.startswith("-")), "")
        near = _did_you_mean(option, self._option_string_actions) if unknown and option else ""
        raise UsageError(f"{message}{near}", f"see '{self.prog} --help'")

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - argparse's
        if action.choices is not None and value not in action.choices:
            known = [str(one) for one in action.choices]
            near = _did_you_mean(str(value), known) or f" (it is one of: {', '.join(known)})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r:.100}{near}")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from state.text.words import did_you_mean  # late: it is slow to import

    return did_you_mean(word, known)


class Formatter(argparse.HelpFormatter):
    """A help formatter that uses the terminal's width, breaks no word, and keeps paragraphs and lists.

    argparse itself would import shutil, with five compressors, to get the width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)

    def _split_lines(self, text: str, width: int) -> list[str]:
        from textwrap import wrap  # late, as all here: only help needs it

        return wrap(text, width, break_long_words=False, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - argparse's; it is always empty
        from inspect import cleandoc

        paragraphs = list[str]()
        for one in cleandoc(text).split("\n\n"):
            is_list = "\n  " in one
            rows = (part for row in one.split("\n") for part in wrapped(row, width))
            paragraphs.append("\n".join(rows if is_list else self._split_lines(one, width)))
        return "\n\n".join(paragraphs)


def parser_of(prog: str, description: str | None, arguments: Arguments = (), example: str = "") -> Parser:
    """Return a command's parser; `example`: what to type behind `dreamd`."""
    shown = f"for example: dreamd {example}" if example else None
    parser = Parser(prog=prog, description=description, epilog=shown, allow_abbrev=False, formatter_class=Formatter)
    for one in arguments:
        if isinstance(one, tuple):
            group = parser.add_mutually_exclusive_group()
            for each in one:
                add(group, each)
        else:
            add(parser, one)
    return parser


def add(parser: "argparse._ActionsContainer", argument: Argument) -> None:
    """Add an argument to a parser."""
    options = {key: value for key, value in argument.items() if key != "flags"}
    if isinstance(options.get("type"), str):
        options["type"] = _READERS[options["type"]]
    if "choices" in options:
        options |= _named(options["choices"], options.get("metavar"), options.get("help"))
    parser.add_argument(*argument["flags"], **options)


def _named(choices: Iterable[str], metavar: str | None, about: str | None) -> dict[str, str | None]:
    """Return an argument's name, made of its choices unless it has one, and its help, which lists long choices."""
    names = "|".join(choices)
    if metavar is None and len(names) <= _ROOM_FOR_CHOICES:
        return {"metavar": names, "help": about}
    listed = ", ".join(choices)
    return {"metavar": metavar or f"{next(iter(choices))}|…", "help": f"{about}: {listed}" if about else listed}


def _moment(text: str) -> datetime:
    """Return a day or time; whoever has the workspace knows the zone of one without an offset."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        said = f"{text!r} is no day or time such as 2026-03-12 or 2026-03-12T14:30Z"
        raise argparse.ArgumentTypeError(said) from None


def _day_over(text: str) -> datetime:
    """Return the end of a day, so that all known on that day counts; return a time as it is."""
    moment = _moment(text)
    is_day = len(text) == len("2026-03-12") and moment.date() < date.max  # Python has no later day
    return moment + timedelta(days=1) if is_day else moment


_READERS: Mapping[str, Callable[[str], object]] = {
    "int": int, "float": float, "moment": _moment, "end of day": _day_over,
}  # fmt: skip


def named_folder(arguments: argparse.Namespace) -> Path | None:
    """Return the folder named by argument, option or DREAMD_WORKSPACE. Raise UsageError if several are named."""
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


def current_folder() -> Path:
    """Return the current folder; where it was removed, as a worktree may be in a session, the one that it was."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD") or "/")


def workspace_of(
    arguments: argparse.Namespace, start: Path | None = None, *, makes: bool = False, is_agents: bool = False
) -> Workspace:
    """Return the workspace that is meant, by name or else from the folder `start`, usually the working directory.

    With `makes`, a repository that has none gets one, unless connect.new says otherwise. With `is_agents` or `makes`,
    an ignored one is refused, also by name. Raise UsageError for none.
    """
    if arguments.everywhere:
        named_folder(arguments)  # raises if another workspace is named, too
        return open_global_workspace()
    folder = named_folder(arguments)
    if folder is not None and not (makes and repository_of(folder) is not None):
        workspace = open_workspace(folder)
        if makes or is_agents:
            require_wanted((project_of(workspace),))
        return workspace
    start = folder or start or current_folder()
    if not makes:
        return find_workspace(start)
    return find_or_make(start, may_make=lambda: new_memories(arguments.config, os.environ))


def workspace_if_any(arguments: argparse.Namespace) -> Workspace | None:
    """Return the workspace that is meant; None outside of all. Raise UsageError if a named folder is none."""
    try:
        return workspace_of(arguments)
    except UsageError:
        if named_folder(arguments) is not None:
            raise
        return None


def is_configured(arguments: argparse.Namespace) -> bool:
    """Return whether this call has a configuration of its own: by --config or the environment."""
    from daemon.config.layers import configured_here

    return arguments.config is not None or configured_here(os.environ)


def check_config(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if this call has a configuration of its own that is wrong; the daemon would not notice."""
    if is_configured(arguments) or os.environ.get("DREAMD_CONFIG"):
        config_of(arguments)


def config_of(arguments: argparse.Namespace) -> "Config":
    """Return the configuration. Raise ConfigError."""
    from daemon.config.settings import load

    return load(arguments.config)


def caller_of(
    arguments: argparse.Namespace, command: str, on_step: "Callable[[Step], None]" = lambda _: None
) -> "Caller":
    """Return a caller of operations that prints each notice to stderr once."""
    from daemon.api.dispatch import Caller
    from daemon.config.per_dream import settings_of_call

    shown = set[str]()

    def on_notice(notice: str) -> None:
        show_notices({notice} - shown)
        shown.add(notice)

    workspace, config = workspace_of(arguments), config_of(arguments)
    settings = settings_of_call(arguments.config, os.environ, config)
    return Caller(workspace, config, f"dreamd {command}", on_step, on_notice, *settings)


def as_arguments(error: UsageError, parser: argparse.ArgumentParser) -> UsageError:
    """Return an error about fields of a request with the names that they have on the command line."""
    from daemon.api.operations.operation import FieldsError

    fields: dict[str, str] = dict(error.details["fields"])  # type: ignore[call-overload]
    return FieldsError({_argument(parser, field): problem for field, problem in fields.items()})


def _argument(parser: argparse.ArgumentParser, field: str) -> str:
    """Return the argument that a field came from: the one of the same name, else the only positional one."""
    name = field.partition(".")[0].removesuffix("_id")
    actions = parser._actions  # noqa: SLF001 - argparse has no public access to them
    meant = [one for one in actions if one.dest == name] or [one for one in actions if not one.option_strings]
    if len(meant) != 1:
        return field
    return meant[0].option_strings[-1] if meant[0].option_strings else str(meant[0].metavar or meant[0].dest)
