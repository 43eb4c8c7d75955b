"""What is written down of the operations, for readers that must not import them.

python -m tests.daemon.cli.commands      writes the files anew, when an operation has another parameter or name

daemon/cli/commands.json has the arguments of commands that a running daemon answers; own_tools.json the names of
the tools, by which transcripts show that dreamd answered.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.operations.table import OPERATIONS
from daemon.cli import COMMANDS
from daemon.cli import OPERATIONS as PERFORMED
from daemon.cli.perform import TABLE, arguments_of
from daemon.ingest.formats.own_answers import OWN_TOOLS

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation


def files() -> dict[Path, str]:
    """Each file as the operations have it: names and arguments, without the help."""
    table = {}
    for name in PERFORMED:
        module, _, attribute = COMMANDS[name][0].partition(":")
        operation: AnyOperation = getattr(import_module(f"daemon.{module}"), attribute)
        if operation.reads and not operation.long:  # it may be asked once more in full
            arguments = [{key: one[key] for key in one if key != "help"} for one in arguments_of(operation)]
            table[name] = {"operation": operation.name, "arguments": arguments}
    tools = sorted(one.name for one in OPERATIONS.values() if one.agents)
    return {path: json.dumps(value, indent=1) + "\n" for path, value in ((TABLE, table), (OWN_TOOLS, tools))}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
