"""Open the window in a browser: what is remembered and why, what waits for you, what was dreamt.

The browser is logged in by a link that works once, within a minute. Where no browser can be started, the link is
printed. Pages are served by the daemon, at its port; without a daemon, --once serves until Ctrl-C.
"""

import argparse
import os
import re
import sys
import threading
import time
import webbrowser
from contextlib import suppress

from daemon.api.client import Client, LostError, NoDaemonError, daemon
from daemon.cli.parsing import config_of, takes_folder, workspace_if_any, workspace_of
from daemon.cli.terminal import out, say, show_json
from daemon.config.registry import name_of
from daemon.config.settings import load
from state.errors import DreamdError, UsageError

_START = (
    "'dreamd install-service --now' makes one that stays, 'dreamd serve' runs one here, 'dreamd open --once' for now"
)
_READY_SECONDS = 30.0
_LINK = re.compile(r"http://[0-9A-Za-z.:%\[\]-]+/login/[0-9A-Za-z_-]+")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which workspace, and how."""
    parser.add_argument("--once", action="store_true", help="without a daemon: be one, until Ctrl-C")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the link, and open nothing")
    takes_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    """Open the browser at the workspace, or at the first page outside of one."""
    try:
        if (client := daemon()) is not None:
            client.get("/v1/workspaces")
            _show(client, arguments)
            return 0
    except NoDaemonError:
        pass
    if not arguments.once:
        raise NoDaemonError("no daemon runs, and it serves the pages", _START)
    from daemon.process.run import run as serve

    if not config_of(arguments).http.port:
        raise UsageError("http.port is 0, and a browser needs a port", "set DREAMD_HTTP__PORT to a free one")
    workspace = workspace_of(arguments)
    threading.Thread(target=_open_when_ready, args=(arguments,), name="open", daemon=True).start()
    say("serving until Ctrl-C")
    return serve(lambda: load(arguments.config), (workspace.root,))


def _show(client: Client, arguments: argparse.Namespace) -> None:
    url = link(client, _name(client, arguments))
    # What opens here can show something: a text browser would take the terminal.
    screen = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    if arguments.json:
        show_json({"url": url})
    elif arguments.only_print or not screen or not webbrowser.open(url):
        out(url)
        sys.stdout.flush()  # who serves on meanwhile does not end yet
        say("it works once, and for a minute")
    else:
        say("opened in your browser")


def _name(client: Client, arguments: argparse.Namespace) -> str:
    """Return the name of the workspace that is meant, which the daemon keeps from now on; empty outside of one."""
    workspace = workspace_if_any(arguments)
    if workspace is None:
        return ""
    kept = {one["root"] for one in client.get("/v1/workspaces")["workspaces"]}
    if str(workspace.root) not in kept:
        client.post("/v1/register", {"path": str(workspace.root)})
    return name_of(workspace.root)


def link(client: Client, workspace: str) -> str:
    """Return a link of the daemon that logs a browser in, once. Raise LostError for what no daemon says."""
    reply = client.post("/v1/login", {"workspace": workspace})
    url = str(reply.get("url")) if isinstance(reply, dict) else ""
    if not _LINK.fullmatch(url):  # a browser opens files too, and takes options
        raise LostError("what answers at the daemon's socket gave no link", "restart the daemon; try again")
    return url


def _open_when_ready(arguments: argparse.Namespace) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        with suppress(DreamdError):
            if (client := daemon()) is not None:
                client.get("/readyz")
                _show(client, arguments)
                return
        time.sleep(0.1)
    say("the daemon did not get ready; its log says why")
