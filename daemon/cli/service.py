"""Service: the daemon in the foreground, its window in a browser, and the status of daemon and workspaces."""

import argparse
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from daemon.api.client import SILENT, Client, LostError, NoDaemonError
from daemon.api.other_version import other_version
from daemon.cli.parsing import CONFIG, FOLDER, arg, check_config, command, config_of, workspace_if_any, workspace_of
from daemon.cli.perform import show, show_answer
from daemon.cli.terminal import out, say, show_json, show_notices
from state.errors import BusyError, ConfigError
from state.stores.disk.lock import is_stopped, present_holder

_START = "'dreamd install-service --now' makes one that stays, 'dreamd serve' runs one here"
# A daemon that does not answer in this time is stopped or overloaded, and would not in thirty seconds either.
_STATUS_SECONDS = 2.0
_LINK = re.compile(r"http://[0-9A-Za-z.:%\[\]-]+/login/[0-9A-Za-z_-]+")


@command(
    arg(
        "folders", nargs="*", type=Path, metavar="DIR",
        help="workspaces, to look after from now on, beside those that it knows",
    ),
    CONFIG,
)  # fmt: skip
def serve(arguments: argparse.Namespace) -> int:
    """Serve in the foreground: keep workspaces, dream by itself, and serve agents. systemd runs this.

    Until SIGTERM or SIGINT; SIGHUP reads the configuration again.
    """
    from daemon.config.paths import socket_path, token_path
    from daemon.process.run import run

    if os.isatty(2):
        say(f"listening at {socket_path(os.environ)}; the token for the port is in {token_path(os.environ)}")
    return run(lambda: config_of(arguments), tuple(folder.absolute() for folder in arguments.folders))


@command(
    arg(
        "--database",
        metavar="URL",
        help="postgresql://user@host:5432/dreamd; else fleet.database of the configuration",
    ),
    CONFIG,
)
def migrate(arguments: argparse.Namespace) -> int:
    """Make the tables of a fleet in PostgreSQL, or bring them to this version.

    Doing it again is harmless, and the processes of a fleet may run meanwhile.
    """
    from uuid import uuid4

    from daemon.fleet.connections import require_installed

    url = arguments.database or config_of(arguments).fleet.database
    if not url:
        raise ConfigError("no database is named", "give --database, or set fleet.database (DREAMD_FLEET__DATABASE)")
    require_installed()
    from state.stores.fleet.database import migrate as bring_up
    from state.stores.fleet.database import named

    say(f"{named(url)} has schema {bring_up(url, str(uuid4()))} of the fleet")
    return 0


# ------------------------------------------------------------------- the window


@command(arg("--print", action="store_true", dest="only_print", help="print the link, and open nothing"), *FOLDER)
def open_(arguments: argparse.Namespace) -> int:
    """Open the window in a browser: what is remembered and why, what waits for you, what was dreamt.

    The browser is logged in by a link that works once, within a minute. Where no browser can be started, the link is
    printed. Pages are served by the daemon, at its port, which keeps the workspace from then on; outside of every
    workspace it is the first page.
    """
    check_config(arguments)
    client, name = Client.at(os.environ), ""
    try:
        kept = {one["root"] for one in client.get("/v1/workspaces")["workspaces"]}
    except NoDaemonError:
        raise NoDaemonError("no daemon runs, and it serves the pages", _START) from None
    if (workspace := workspace_if_any(arguments)) is not None:
        name = workspace.name
        if str(workspace.root) not in kept:
            client.post("/v1/register", {"path": str(workspace.root)})
    url = link(client, name)
    import webbrowser

    # Only with a graphical browser, as a text browser would take over the terminal.
    screen = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    if arguments.json:
        show_json({"url": url})
    elif arguments.only_print or not screen or not webbrowser.open(url):
        out(url)
        say("it works once, and for a minute")
    else:
        say("opened in your browser")
    return 0


def link(client: Client, workspace: str) -> str:
    """Return a link of the daemon that logs a browser in once. Raise LostError for an implausible reply."""
    reply = client.post("/v1/login", {"workspace": workspace})
    url = str(reply.get("url")) if isinstance(reply, dict) else ""
    if not _LINK.fullmatch(url):  # a browser opens files too, and takes options
        raise LostError("what answers at the daemon's socket gave no link", "restart the daemon; try again")
    return url


# ------------------------------------------------------------------- status


@command(*FOLDER)
def status(arguments: argparse.Namespace) -> int:
    """Show how a workspace is: pending notes, the last and the next dream, crystals, spend, problems; or the daemon.

    Also while a dream runs; outside a workspace that of the daemon and all it keeps.
    """
    workspace, is_silent = workspace_if_any(arguments), False
    check_config(arguments)
    if workspace is None or not is_stopped(present_holder(workspace)):
        # The daemon knows when the next dream is; for a workspace that it does not keep, the files say everything.
        operation = "dream_status" if workspace else "status"
        try:
            if show_answer(operation, workspace, {}, _STATUS_SECONDS, as_json=arguments.json):
                show_notices("; ".join(said) for said in (other_version(),) if said)
                return 0
        except (BusyError, LostError) as error:  # none runs, or it does not answer
            is_silent = isinstance(error.__cause__, TimeoutError)
        except ValueError:
            pass
    from daemon.api.operations.dreams import status_text
    from daemon.workspace.status import Problem
    from daemon.workspace.status import status as status_of

    if is_silent and workspace is None:
        raise LostError(*SILENT)
    config = config_of(arguments)
    value = status_of(workspace or workspace_of(arguments), config, datetime.now(UTC))
    silent = (Problem(*SILENT),) if is_silent else ()
    show(status_text, replace(value, problems=(*silent, *value.problems)), config.zone, as_json=arguments.json)
    return 0
