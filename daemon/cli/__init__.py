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

# The commands as README groups them, each with its module and attribute, its help, and an example; beside the title
# of a group the command whose example stands for all.
GROUPS = {
    ("Set up", "connect"): {
        "setup": ("cli.setup:setup", "set up agents, the service, a model; prove that it works", "setup"),
        "uninstall": ("cli.setup:uninstall", "undo setup; the memories stay", "uninstall"),
        "connect": ("cli.agents:connect", "have agents use the memory, in all projects", "connect --check"),
        "disconnect": ("cli.agents:disconnect", "take out of agents what connect has put in", "disconnect codex"),
        "install-service": ("cli.setup:install_service", "have the daemon run by itself", "install-service --now"),
        "models": ("cli.settings:models", "the model of searches by meaning; 'install' brings it", "models install"),
        "config": ("cli.settings:config", "show and change the configuration", "config set model.name codex"),
        "completion": ("cli.settings:completion", "have bash, zsh or fish complete words", "completion bash"),
    },
    ("Where a memory is", "init"): {
        "init": ("cli.workspace:init", "give a repository or folder a memory", "init ~/agents/ada"),
        "path": ("cli.workspace:path", "print where MEMORY.md of a folder or repository is", "path"),
        "ignore": ("cli.workspace:ignore", "keep projects out of every memory", "ignore '~/work/client-*'"),
    },
    ("Remember", "note"): {
        "note": ("cli.note:note", "note what is worth remembering", 'note "Ada prefers tea" --importance 0.8'),
        "ingest": ("cli.ingest:ingest", "read transcripts, or what agents kept before", "ingest --found"),
        "dream": ("cli.dream:dream", "dream now: fold what is new into MEMORY.md", "dream --dry-run"),
        "feel": ("api.operations.signals:feel_event", "say that what just happened mattered", "feel reward"),
        "mood": ("api.operations.signals:current_mood", "show what was felt, and how it fades", "mood --hours 24"),
        "session": ("cli.session:session", "show the working memory of sessions", "session list"),
    },
    ("Look", "search"): {
        "open": ("cli.service:open_", "open the window in a browser: see it, review it, correct it", "open"),
        "status": ("cli.service:status", "is all well? dreams, notes, spend, problems", "status"),
        "search": ("api.operations.search:memory_search", "search all that was ever noted", 'search "tea or coffee"'),
        "why": ("api.operations.search:memory_why", "show where a line comes from", 'why "prefers tea"'),
        "why-not": ("api.operations.search:memory_why_not", "say why an agent was not given a thing", "why-not tea"),
        "history": ("api.operations.memory:history", "list the versions of MEMORY.md", "history --limit 50"),
        "changes": ("api.operations.journal:changes", "list changes of single lines, each by its name", "changes 12"),
        "diff": ("api.operations.memory:diff", "show what changed between versions", "diff 10 12"),
        "as-of": ("api.operations.memory:memory_as_of", "show MEMORY.md as it was on a day", "as-of 2026-11-05"),
        "bootstrap": ("cli.bootstrap:bootstrap", "print what an agent reads at session start", "bootstrap"),
    },
    ("Decide", "review"): {
        "review": ("cli.review:review", "accept or decline what waits for your yes", "review --accept 1 2"),
        "wrong": (
            "api.operations.memory:correct",
            "put right what is wrong, everywhere it is said",
            'wrong "likes tea" --right "Ada likes mate"',
        ),
        "undo": ("api.operations.journal:undo_changes", "take single changes, or a whole version, back", "undo 12.3"),
        "restore": ("api.operations.memory:restore_version", "bring back an earlier version", "restore 11"),
        "supersede": (
            "api.operations.crystals:supersede",
            "say which of two memories holds now, or that both do",
            'supersede "office in Altona" "office in Eppendorf"',
        ),
        "secrets": ("cli.settings:secrets", "list what was redacted, bring back what is no secret", "secrets"),
        "forget": ("cli.upkeep:forget", "erase a text everywhere, with a receipt", 'forget "Mara" --dry-run'),
    },
    ("Repair and back up", "export"): {
        "doctor": ("cli.upkeep:doctor", "check everything and say what to do", "doctor --repair --dry-run"),
        "export": ("cli.archive:export", "write the whole workspace into one file: a backup", "export -o ~/backups"),
        "import": ("cli.archive:import_", "make a workspace of such a file", "import ada.dreamd.db ~/agents/ada"),
    },
    ("Run the daemon, MCP over stdio, a fleet", "serve"): {
        "serve": ("cli.service:serve", "run the daemon here: dream by itself, serve agents", "serve"),
        "mcp": ("cli.mcp:mcp", "serve one agent over stdio", "mcp -w ~/agents/ada"),
        "call": ("cli.perform:call", "run any operation for a program, JSON in and out", "call lines < /dev/null"),
        "fleet": ("cli.fleet", "serve and keep a fleet: its tenants, workspaces, recovery", "fleet status"),
        "migrate": ("cli.service:migrate", "make the tables of a fleet in PostgreSQL", "migrate"),
    },
}
COMMANDS = {name: row for group in GROUPS.values() for name, row in group.items()}
# Commands that are one operation each.
OPERATIONS = tuple(name for name, (place, *_) in COMMANDS.items() if place.startswith("api."))
_INTERRUPTED = 130  # 128 + SIGINT, as in shells
# What is left when this process is interrupted; what the daemon does goes on, and is told where it is asked.
_LEFT = {
    "dream": "no dream was begun here",
    "forget": "what is erased is gone: 'dreamd forget' without a text erases the rest",
    "note": "nothing was noted",
    "export": "no file was written",
}
_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 done, 1 failed, 2 usage, 3 nothing to do, 4 refused, 5 busy. An error is one line on stderr, and
    with `--json` also an object on stdout; DREAMD_DEBUG=1 prints a traceback.
    """
    if unfit := _unfit():
        sys.stderr.write(f"dreamd: {unfit}\n")
        return 1
    words = sys.argv[1:] if argv is None else list(argv)
    words = [*words[1:], "--help"] if words[:1] == ["help"] else words
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
        what = str(end) or _LEFT.get(words[0], "what was done stands, run the command again to go on")
        sys.stderr.write(f"dreamd: interrupted; {what}\n")
        return _INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where every error is reported
        from daemon.cli.terminal import report
        from daemon.observability.failures import debugging, failure

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
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0 if words else UsageError.exit_status
    name, *rest = words
    if name == "--version":
        sys.stdout.write(f"dreamd {_version()}\n")
        return 0
    if name not in COMMANDS:
        raise _no_command(name)
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


def _no_command(name: str) -> UsageError:
    from state.text.words import did_you_mean

    near = did_you_mean(name, (*COMMANDS, "help", "--help", "--version"))
    return UsageError(f"there is no command {name!r:.100}{near}", "'dreamd --help' lists them")


def command(name: str) -> "tuple[Parser, Callable[[Namespace], int]]":
    """Return a command's parser, and the function that runs it."""
    from daemon.cli.parsing import WORKSPACE, Command, parser_of

    place, about, example = COMMANDS[name]
    module, _, attribute = place.partition(":")
    __import__(f"daemon.{module}")  # importlib's own function would take longer to import than it takes
    found = sys.modules[f"daemon.{module}"]
    if not attribute:  # a module that fills its own parser
        parser = parser_of(f"dreamd {name}", found.__doc__, example=example)
        found.add(parser)
        return parser, found.run
    found = getattr(found, attribute)
    if isinstance(found, Command):
        return parser_of(f"dreamd {name}", found.run.__doc__, found.arguments, example), found.run
    from daemon.cli import perform

    # An operation's own summary tells agents when to use it.
    description = f"{about[0].upper()}{about[1:]}{'' if about.endswith('?') else '.'}"
    parser = parser_of(f"dreamd {name}", description, [*perform.arguments_of(found), *WORKSPACE], example)
    return parser, lambda arguments: perform.run(found, arguments, name)


def _help() -> str:
    from daemon.cli.terminal import columns, wrapped

    width = max(map(len, COMMANDS))
    rows = ["usage: dreamd COMMAND …", "", "dreamd keeps an AI agent's MEMORY.md current, and loses no line of it."]
    for (title, telling), group in GROUPS.items():
        rows += ["", f"{title}, as in: dreamd {group[telling][2]}"]
        rows += (f"  {name:<{width}}  {about}" for name, (_, about, _) in group.items())
    rows += ["", "'dreamd help COMMAND' says more, with an example."]
    rows += ["Exit status: 0 done, 1 failed, 2 usage, 3 nothing to do, 4 refused, 5 busy."]
    return "".join(f"{part}\n" for row in rows for part in wrapped(row, columns()))


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
