"""Note: the command that runs at every turn of an agent; it imports almost nothing."""

import argparse
import os
import sys
from datetime import UTC, datetime

from daemon.cli.parsing import WORKSPACE, arg, command, config_of, named_folder, workspace_of
from daemon.config.layers import redaction
from daemon.workspace.adoption import has_global_workspace, init_global_workspace, is_untold
from state.scratch import DEFAULT_IMPORTANCE, Note
from state.stores.history.inbox import NoteInbox


@command(
    arg("text", nargs="+", metavar="TEXT", help="the note; - reads it from stdin"),
    arg("--importance", type=float, default=DEFAULT_IMPORTANCE, metavar="0–1", help="default %(default)s"),
    arg(
        "--replaces", default="", metavar="ID|TEXT", help="the line or memory that the note replaces, or words of it"
    ),
    *WORKSPACE,
)
def note(arguments: argparse.Namespace) -> int:
    """Append a note to the scratch log; the next dream folds it in."""
    # The append is durable and redacted, and needs neither the workspace's lock nor its database.
    if is_new := arguments.everywhere and named_folder(arguments) is not None and not has_global_workspace():
        init_global_workspace()
    workspace = workspace_of(arguments, makes=True)
    is_new |= is_untold(workspace) and not workspace.inbox.exists()
    # Bytes that are not UTF-8 must not lose the note: the log shows them as escapes.
    text = (
        sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        if arguments.text == ["-"]
        else " ".join(arguments.text)
    )
    given = Note(text, datetime.now(UTC), arguments.importance, replaces=arguments.replaces)
    written = NoteInbox(workspace).append(given, redaction(arguments.config, os.environ))
    taken = written.required()
    if arguments.json:
        import json

        fields = {"at": f"{taken.at:%Y-%m-%dT%H:%M:%SZ}", "importance": taken.importance, "text": taken.text}
        fields["crystal"] = "pending"  # as the operation's reply has it
        fields |= {"replaces": taken.replaces} if taken.replaces else {}
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    else:
        secrets = taken.text.count("[redacted: ") - text.count("[redacted: ")
        left_out = f" (with {secrets} secret{'s' * (secrets > 1)} left out)" if secrets > 0 else ""
        sys.stdout.write(f"noted{left_out}\n")
    for notice in written.notices:
        sys.stderr.write(f"notice: {notice}\n")
    if taken.replaces:  # the note is safe in the log; warn if it replaces nothing
        from daemon.api.access import LocalAccess
        from daemon.api.operations.notes import doubt_what_it_replaces
        from daemon.cli.terminal import show_notices

        told = LocalAccess(workspace, config_of(arguments), "dreamd note", on_notice=lambda one: show_notices([one]))
        with told as access:
            doubt_what_it_replaces(access, taken)
    if is_new:
        from daemon.api.keeping import keep

        keep(workspace, wanted=True)
    return 0
