"""Recovery of a fleet's database from its object store."""

import argparse
import os
from collections import Counter
from typing import TYPE_CHECKING

from daemon.api.text import counted
from daemon.cli.parsing import config_of
from daemon.cli.terminal import out, say, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.fleet.upkeep.recovery import Found


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", default="", metavar="NAME", help="of this tenant alone")
    parser.add_argument("--list", action="store_true", help="show what would be done, and change nothing")
    parser.add_argument(
        "--older",
        action="store_true",
        help="where a generation is not whole in the store, take the newest older one; what came since is lost",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="although processes live; and take generations with a higher number and an older time",
    )


def _run(arguments: argparse.Namespace) -> int:
    from daemon.fleet.connections import connect_to_recover
    from daemon.fleet.upkeep.archives import scratch_folder
    from daemon.fleet.upkeep.recovery import recover, require_stopped, survey

    config = config_of(arguments)
    connections = connect_to_recover(config, os.environ, adopt=not arguments.list)
    try:
        if arguments.list:
            return _show(survey(connections, arguments.tenant), arguments)
        if not arguments.force:
            require_stopped(connections)
        with scratch_folder(config, os.environ) as own:
            done = recover(connections, arguments.tenant, own, older=arguments.older, insistent=arguments.force)
            return _show(done, arguments)
    finally:
        connections.close()


def _show(found: "Iterable[Found]", arguments: argparse.Namespace) -> int:
    """Print each that is not as it should be, and how many there are of every kind; the exit status."""
    from daemon.fleet.upkeep.recovery import Finding

    every, counts, is_wrong = list["Found"](), Counter[str](), False
    for one in found:
        counts["recovered" if one.done else one.finding.value] += 1
        is_wrong |= bool(one.problem) and one.finding is not Finding.UNNAMED
        if one.finding is Finding.CURRENT:
            continue
        if arguments.json:
            every.append(one)
        else:
            out(_line(one))
    if arguments.json:
        show_json({"workspaces": every, "counts": dict(counts), "changed": not arguments.list})
    else:
        say(f"{counted(counts.total(), 'workspace')}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
        if arguments.list:
            say("nothing was changed")
        elif counts["recovered"]:
            say("notice: quotas and tokens are as the database has them; 'dreamd fleet tenant list' shows the quotas")
    return 1 if is_wrong else 0


def _line(one: "Found") -> str:
    name = f"{one.tenant}/{one.workspace}" if one.workspace else "?"
    text = f"{name:<24} {one.prefix:<12} {one.finding.value:<9} row {one.row}, store {one.store}"
    if one.done:
        text += f": {'made' if not one.row and one.finding.value == 'missing' else 'brought up'}"
    if one.inbox:
        text += f", {counted(one.inbox, 'note')} of the inbox were in it"
    return f"{text}: {one.problem}" if one.problem else text


ACTS = {"recover": (_add, _run)}
