"""Archives of a fleet's workspaces: export to a file, import from one."""

import argparse
import os
import time
from pathlib import Path

from daemon.api.text import counted
from daemon.cli.fleet.connected import connected, place_of
from daemon.cli.terminal import out, say, show_json, working
from state.errors import NotFoundError


def _takes_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose")
    parser.add_argument("name", metavar="WORKSPACE", help="its name")
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="a new file (else WORKSPACE-DATE-TIME.dreamd.db here)"
    )


def _export(arguments: argparse.Namespace) -> int:
    from daemon.fleet.upkeep.archives import export_place, require_new, scratch_folder
    from state.stores.fleet.tenants import Tenants

    name = arguments.name
    target = arguments.file or Path(f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.dreamd.db")
    target = Path(os.path.realpath(target))
    require_new(target)
    with (
        connected(arguments) as (config, connections),
        scratch_folder(config, os.environ) as own,
        working("exporting…"),
    ):
        tenant = Tenants(connections.database).find(arguments.tenant)
        place = place_of(connections.database, tenant, name).place
        done = export_place(connections, config, place, target, own)
    if arguments.json:
        show_json(done)
    else:
        parts = [f"generation {done.generation}"]
        parts += [f"{counted(done.inbox, 'note')} of the inbox"] if done.inbox else []
        parts += [counted(done.archive.version, "version"), counted(done.archive.crystals, "crystal")]
        out(f"{target}: {', '.join(parts)}, {done.archive.bytes:,} bytes")
    return 0


def _takes_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose it is to be")
    parser.add_argument("name", metavar="NAME", help="of the workspace: a new one, or one that never held anything")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="an archive of 'dreamd export' or 'dreamd fleet export'"
    )


def _import(arguments: argparse.Namespace) -> int:
    from daemon.fleet.upkeep.archives import import_place, scratch_folder
    from state.stores.fleet.tenants import Tenants

    if not arguments.file.exists():
        raise NotFoundError(f"there is no file {arguments.file}", "name an archive of 'dreamd export'")
    with (
        connected(arguments) as (config, connections),
        scratch_folder(config, os.environ) as own,
        working("importing…"),
    ):
        tenant = Tenants(connections.database).find(arguments.tenant)
        done = import_place(connections, tenant, arguments.name, arguments.file, own)
    if done.archive.missing:
        missing = counted(len(done.archive.missing), "version")
        say(f"notice: {missing} had no record: they can be neither shown nor restored")
    if arguments.json:
        show_json(done)
    else:
        what = f"{counted(done.archive.version, 'version')}, {counted(done.archive.crystals, 'crystal')}"
        at = f"as of {done.archive.at:%Y-%m-%d %H:%M:%S} UTC"
        out(f"workspace {done.workspace} of tenant {done.tenant} ({done.handle}): {what}, {done.bytes:,} bytes, {at}")
    return 0


ACTS = {"export": (_takes_export, _export), "import": (_takes_import, _import)}
