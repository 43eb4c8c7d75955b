"""The command line: `dreamd COMMAND`.

A command is either an operation, whose parameters become its arguments (`perform`), or a function with a list of
arguments (`parsing.command`). Only the requested command is imported, and it imports heavy modules late: agents call
`note` and `bootstrap` at every turn. For the same reason argparse, not typer (100 ms). Results go to stdout,
everything else to stderr.
"""

import os
import sys
from collections.abc import Sequence

from state.errors import UsageError

TYPE_CHECKING = False  # `typing` would take a fifth of --help
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from daemon.cli.parsing import Parser

# The module and attribute of each command, and its help.
COMMANDS = {
    "setup": ("cli.setup:setup", "set up agents, the service, a model; prove that it works"),
    "uninstall": ("cli.setup:uninstall", "undo setup; the memories stay"),
    "init": ("cli.workspace:init", "give a repository or folder a memory, take in an existing MEMORY.md"),
    "path": ("cli.workspace:path", "print where MEMORY.md of a folder or repository is"),
    "ignore": ("cli.workspace:ignore", "keep projects out of every memory; list those that are"),
    "connect": ("cli.agents:connect", "have agents use the memory, once for all projects; --check tries it"),
    "disconnect": ("cli.agents:disconnect", "take out of agents what connect has put in"),
    "note": ("cli.note:note", "append a note to the scratch log"),
    "bootstrap": ("cli.bootstrap:bootstrap", "print what an agent reads at session start"),
    "dream": ("cli.dream:dream", "dream now: fold what is new into MEMORY.md"),
    "search": ("api.operations.search:memory_search", "search the long-term memory"),
    "status": ("cli.service:status", "pending notes, the last dream, crystals, spend, problems"),
    "open": ("cli.service:open_", "open the window in a browser: see it, review it, correct it"),
    "history": ("api.operations.memory:history", "list the versions of MEMORY.md"),
    "changes": ("api.operations.journal:changes", "list single changes by name, with what they rest on"),
    "undo": ("api.operations.journal:undo_changes", "take single changes, or a whole version, back"),
    "diff": ("api.operations.memory:diff", "show what changed between versions"),
    "restore": ("api.operations.memory:restore_version", "bring back an earlier version"),
    "why": ("api.operations.search:memory_why", "show where a line comes from"),
    "why-not": ("api.operations.search:memory_why_not", "say why an agent was not given a thing"),
    "supersede": ("api.operations.crystals:supersede", "say which of two memories holds now, or that both do"),
    "wrong": ("cli.review:wrong", "say that a line was never true; --right says what is"),
    "forget": ("cli.upkeep:forget", "erase a text everywhere, with a receipt"),
    "secrets": ("cli.settings:secrets", "list what was redacted and may be no secret, and bring it back"),
    "review": ("cli.review:review", "what waits for your yes: show it, accept or decline it"),
    "feel": ("api.operations.signals:feel_event", "raise a hormone event"),
    "mood": ("api.operations.signals:current_mood", "show the hormone levels"),
    "ingest": ("cli.ingest:ingest", "read transcripts into the long-term memory"),
    "session": ("cli.session:session", "show the working memory of sessions"),
    "export": ("cli.archive:export", "write the whole workspace into one file: a backup"),
    "import": ("cli.archive:import_", "make a workspace of such a file"),
    "serve": ("cli.service:serve", "the daemon, in the foreground: dreams by itself, serves agents"),
    "mcp": ("cli.mcp:mcp", "MCP over stdio, for an agent"),
    "call": ("cli.perform:call", "run any operation for a program: JSON in, lines of JSON out"),
    "migrate": ("cli.service:migrate", "make the tables of a fleet in PostgreSQL"),
    "fleet": ("cli.fleet", "serve and keep a fleet: its processes, status, tenants, tokens, workspaces, recovery"),
    "install-service": ("cli.setup:install_service", "have systemd or launchd run the daemon"),
    "models": ("cli.settings:models", "the embedding model: which is there; 'install' brings it"),
    "config": ("cli.settings:config", "the configuration in force, and where each value comes from"),
    "doctor": ("cli.upkeep:doctor", "check everything and say what to do"),
    "completion": ("cli.settings:completion", "a script by which bash, zsh or fish complete commands and options"),
}
# Commands that are one operation each.
OPERATIONS = tuple(name for name, (place, _) in COMMANDS.items() if place.startswith("api."))
_INTERRUPTED = 130  # 128 + SIGINT, as in shells
_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 done, 1 failed, 2 usage, 3 nothing to do, 4 rejected by a guard, 5 busy. An error is one line on stderr, and
    with `--json` also an object on stdout; DREAMD_DEBUG=1 prints a traceback.
    """
    if unfit := _unfit():
        sys.stderr.write(f"dreamd: {unfit}\n")
        return 1
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        # A command that has done its work must not fail because the terminal cannot show a character.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(words)
        sys.stdout.flush()
    except SystemExit as end:  # argparse has shown the help
        return int(end.code or 0)
    except KeyboardInterrupt as end:
        what = str(end) or "what was done stands, run the command again to go on"
        sys.stderr.write(f"dreamd: interrupted; {what}\n")
        return _INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where every error is reported
        from daemon.observability.failures import debugging, failure, report

        if debugging():
            import traceback

            traceback.print_exc()
        return report(failure(error), as_json="--json" in words)
    return status


def _unfit() -> str:
    """Return why dreamd cannot work on this system or in this Python environment; "" if it can."""
    if sys.platform == "win32":
        return "it runs on Linux and macOS; on Windows use WSL"
    folder = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is slow to import
    # The package has rooms alone: another module in it is of another distribution that calls its package the same.
    others = {name for name in os.listdir(folder) if name.endswith(".py")} - {"__init__.py", "__main__.py"}  # noqa: PTH208
    if not others:
        return ""
    from importlib.metadata import packages_distributions

    names = " and ".join(sorted({*packages_distributions().get("daemon", ())} - {"dreamd"})) or "another program"
    return (
        f"{names} is installed in the same Python environment and has put {', '.join(sorted(others))} into {folder}, "
        "the folder of dreamd, where only one can work; uninstall dreamd here, install it as a tool of its own "
        f"('uv tool install dreamd' or 'pipx install dreamd'), and reinstall {names}"
    )


def _run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if words else UsageError.exit_status
    name, *rest = words
    if name == "--version":
        sys.stdout.write(f"dreamd {_version()}\n")
        return 0
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}", "'dreamd --help' lists them")
    if name == "fleet":  # it has subcommands
        from daemon.cli import fleet

        if (acting := fleet.plain(rest)) is not None:
            return fleet.run(acting)
    if name in OPERATIONS:
        from daemon.cli import perform

        if (status := perform.ask_daemon(name, rest)) is not None:
            return status
    parser, run = command(name)
    arguments = parser.read(rest)
    try:
        return run(arguments)
    except UsageError as error:
        if "fields" not in error.details or name == "call":  # a program knows the fields by their own names
            raise
        from daemon.cli.parsing import as_arguments

        raise as_arguments(error, parser) from error


def command(name: str) -> "tuple[Parser, Callable[[Namespace], int]]":
    """Return a command's parser, and the function that runs it."""
    from daemon.cli.parsing import WORKSPACE, Command, parser_of

    module, _, attribute = COMMANDS[name][0].partition(":")
    __import__(f"daemon.{module}")  # importlib's own function would take longer to import than it takes
    found = sys.modules[f"daemon.{module}"]
    if not attribute:  # a module that fills its own parser
        parser = parser_of(f"dreamd {name}", found.__doc__)
        found.add(parser)
        return parser, found.run
    found = getattr(found, attribute)
    if isinstance(found, Command):
        return parser_of(f"dreamd {name}", found.run.__doc__, found.arguments), found.run
    from daemon.cli import perform

    parser = parser_of(f"dreamd {name}", found.summary, [*perform.arguments_of(found), *WORKSPACE])
    return parser, lambda arguments: perform.run(found, arguments, name)


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = "".join(f"  {name:<{width}}  {about}\n" for name, (_, about) in COMMANDS.items())
    return (
        "usage: dreamd COMMAND …\n\n"
        "The daemon that keeps an AI agent's MEMORY.md alive, and cannot lose a line of it.\n\n"
        f"{rows}\n'dreamd COMMAND --help' says more. Exit status: 0 done, 1 failed, 2 usage, 3 nothing to do, "
        "4 rejected by a guard, 5 busy.\n"
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dreamd")
    except PackageNotFoundError:
        return "(not installed)"


def _discard_output() -> None:
    """Send stdout, whose reader has gone, to /dev/null, so that flushing it at exit does not fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
