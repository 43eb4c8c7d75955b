"""Agent hooks: the message that an agent passes to its hook on stdin, and the link to its transcript.

Agents write one JSON object, with more fields than are read here, which change between versions; Cursor begins the
names of events with a small letter. At the end of a session they wait only one to three seconds, and a killed session
has no end. So a hook reads no transcript: from the start of the session on, it links it where dreams look, and the
daemon, which watches links too, reads it now and whenever it grows. For the same reason it imports little.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from daemon.workspace.adoption import vouch, vouched
from daemon.workspace.scan import files
from state.errors import UsageError
from state.stores.disk.disk import leads_elsewhere
from state.stores.disk.places import project_of
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

FOLDER = "transcripts"
# The agents that set CLAUDE_PROJECT_DIR; "" is one that the hook does not name.
_SAY_WHERE_THEY_BEGAN = ("claude-code", "gemini", "")


@dataclass(frozen=True, slots=True)
class Hook:
    """An event of an agent. `transcript` is None if the agent keeps none; the file may not exist yet.

    `session` is the agent's id, or "". `folder` is the one that the agent works in. `begins_session`: the first event
    of a session. `ends_session`: it is over. `ends_turn`: the agent waits for its user; with some agents nothing else
    shows that a session has ended.
    """

    transcript: Path | None
    session: str
    folder: Path | None = None
    begins_session: bool = False
    ends_session: bool = False
    ends_turn: bool = False

    def project(self, environment: Mapping[str, str], agent: str = "") -> Path | None:
        """Return a folder of the project in which the session began; None if nobody says it.

        An agent may have changed its folder since, even into another project: then the variable says where it began.
        One that does not set the variable may have inherited it from the agent that started it.
        """
        named = environment.get("CLAUDE_PROJECT_DIR", "") if agent in _SAY_WHERE_THEY_BEGAN else ""
        started = Path(named) if named.startswith("/") else None
        return (self.folder or started) if self.begins_session else (started or self.folder)


def parse_hook(message: bytes) -> Hook:
    """Parse a hook's message. Raise UsageError if it is not the JSON that agents send to hooks."""
    problem = ""
    try:
        fields = json.loads(message)
    except (ValueError, RecursionError):  # the error quotes the message
        fields, problem = {}, "stdin: invalid JSON"
    if not isinstance(fields, dict):
        fields, problem = {}, "stdin: input should be an object"
    event, path = fields.get("hook_event_name"), fields.get("transcript_path") or ""
    for name, value in (("hook_event_name", event), ("transcript_path", path)):
        if not problem and (not isinstance(value, str) or "\0" in value):
            problem = f"{name}: {'field required' if value is None else 'input should be a valid string'}"
    if problem:
        raise UsageError("--hook reads the JSON that an agent gives its hooks on stdin", problem)
    session = fields.get("session_id") or fields.get("conversation_id")
    transcript = Path(path).expanduser().absolute() if path else None
    roots = fields.get("workspace_roots")  # Cursor's
    folder = fields.get("cwd") or (roots[0] if isinstance(roots, list) and roots else None)
    return Hook(
        transcript,
        session if isinstance(session, str) else "",
        Path(folder) if isinstance(folder, str) and folder.startswith("/") and "\0" not in folder else None,
        begins_session=event in ("SessionStart", "sessionStart"),
        ends_session=event in ("SessionEnd", "sessionEnd"),
        ends_turn=event in ("Stop", "stop"),
    )


def link(workspace: Workspace, transcript: Path, globs: Iterable[str] | None) -> Path:
    """Link the transcript into the workspace, unless it is linked already; return the path of the link.

    A transcript that does not exist yet is read once it does. Raise UsageError if it is no file, or if none of the
    globs (sources.transcripts; None: not checked) matches the link; the link stays, for when one does.
    """
    is_written = transcript.exists()
    if is_written and not transcript.is_file():
        raise UsageError(f"{transcript} is no file", "check what the hook was given as transcript_path")
    folder = workspace.root / FOLDER
    workspace.disk().make_folder(folder, 0o755)  # refuses a folder that leads elsewhere
    # Two agents may use one name for their sessions.
    digest = hashlib.sha256(os.fsencode(transcript)).hexdigest()[:6]
    other = f"{transcript.stem}-{digest}{transcript.suffix}"
    vouch(workspace, transcript)
    linked = next(path for name in (transcript.name, other) if (path := _link_to(folder / name, transcript)))
    # An invalid glob matches nothing; the next dream reports it.
    if is_written and globs is not None and not any(linked in files(workspace.root, glob) for glob in globs):
        raise UsageError(f"sources.transcripts does not find {linked}", f"add '{FOLDER}/**/*' to it")
    return linked


def is_trusted(workspace: Workspace, path: Path) -> bool:
    """Return whether the path leads to a file in the workspace or project, or to one that the owner named."""
    if "\0" in str(path):
        return False
    real = Path(os.path.realpath(path))
    roots = (workspace.root, project_of(workspace))
    inside = any(real.is_relative_to(root) and not leads_elsewhere(path, root) for root in roots)
    return inside or str(real) in vouched(workspace)


def _link_to(path: Path, transcript: Path) -> Path | None:
    """Make the path a link to the transcript and return it; None if something else has this name."""
    with storage_errors(path):
        try:
            path.symlink_to(transcript)
        except FileExistsError:
            return path if path.resolve() == transcript.resolve() else None
    return path
