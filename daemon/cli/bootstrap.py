"""Print what an agent reads at session start: MEMORY.md within its budget, then the pending notes."""

import argparse
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

from daemon.cli.parsing import takes_folder, workspace_of
from daemon.layers import context_window, layers
from state.bootstrap import Bootstrap, bootstrap
from state.errors import ConfigError, UsageError
from state.scratch import Note
from state.stores.files import Disk
from state.stores.segments import Segments
from state.stores.workspace import Workspace

DEFAULT_WINDOW = 200_000
# Of what a hook answers, Claude Code gives the model a preview alone when it is longer than 10,000 characters.
HOOK_CHARACTERS = 9_500


def add(parser: argparse.ArgumentParser) -> None:
    """For which reader, and in which form."""
    parser.add_argument(
        "--context-window", type=int, metavar="N", help="tokens of the reading model (else dream.context_window)"
    )
    parser.add_argument(
        "--format",
        choices=("md", "json", "hook"),
        default="md",
        help="hook: what a session-start hook of Claude Code answers; default %(default)s",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="--format json")
    takes_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it. Nothing is written, no lock is taken, and a missing MEMORY.md is an empty one."""
    workspace = workspace_of(arguments)
    window = arguments.context_window
    if window is None:
        window = context_window(arguments.config, os.environ, DEFAULT_WINDOW)
    if window < 1:
        raise UsageError(f"a context window of {window} tokens is impossible; give a positive number")
    most = HOOK_CHARACTERS if arguments.format == "hook" else None
    ready = bootstrap(_memory(workspace), _notes(workspace, arguments.config), window, most)
    sys.stdout.write(_formatted(ready, arguments.format))
    if not ready.text:
        sys.stderr.write(f"{workspace.root} remembers nothing yet; 'dreamd note' and 'dreamd dream' change that\n")
    return 0


def _memory(workspace: Workspace) -> str:
    content = Disk(workspace.root).read_if_there(workspace.document) or b""
    text = content.decode(errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in content:
        # An agent that gets all but one character is better off than one that gets nothing.
        sys.stderr.write(f"{workspace.document} is not UTF-8 throughout; save it as UTF-8\n")
    return text


def _notes(workspace: Workspace, config: Path | None) -> tuple[Note, ...]:
    """The pending notes, without their secrets: what no dream has read, nobody has redacted."""
    notes = Segments(workspace).pending_notes()
    secrets = layers(config, os.environ)[0].get("secrets") if notes else None
    section = secrets if isinstance(secrets, dict) else {}
    if not notes or section.get("redact") is False:
        return notes
    from state.redaction import redact

    allow = section.get("allow") or ()
    if not isinstance(allow, list | tuple) or not all(isinstance(one, str) for one in allow):
        raise ConfigError(f"secrets.allow is {allow!r}, but it is a list of texts; mend the configuration")
    return tuple(replace(note, text=redact(note.text, tuple(allow)).text) for note in notes)


def _formatted(ready: Bootstrap, form: str) -> str:
    if form == "md":
        return ready.text
    if form == "hook":
        answer = {"hookEventName": "SessionStart", "additionalContext": ready.text}
        return json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False) + "\n"
    return json.dumps({"text": ready.text, **asdict(ready)}, ensure_ascii=False) + "\n"
