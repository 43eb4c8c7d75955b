"""The arguments of daemon/cli/commands.json, which commands read that a running daemon answers.

python -m tests.daemon.cli.commands      writes them anew, when an operation has another parameter
"""

import json
from importlib import import_module
from typing import TYPE_CHECKING

from daemon.cli import ASKING, COMMANDS
from daemon.cli.perform import TABLE, arguments_of

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation


def written() -> str:
    """The file as the operations have it: their names and arguments, without the help."""
    table = {}
    for name in ASKING:
        module, _, attribute = COMMANDS[name][0].partition(":")
        operation: AnyOperation = getattr(import_module(f"daemon.{module}"), attribute)
        assert operation.reads and not operation.long, "it may be asked once more in full"  # noqa: PT018
        arguments = [{key: one[key] for key in one if key != "help"} for one in arguments_of(operation)]
        table[name] = {"operation": operation.name, "arguments": arguments}
    return json.dumps(table, indent=1) + "\n"


if __name__ == "__main__":
    TABLE.write_text(written(), encoding="utf-8")
