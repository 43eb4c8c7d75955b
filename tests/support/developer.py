"""A developer: a home folder with projects in it, the real `git`, and `dreamd` as hooks and people run it."""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import forked
from tests.support.folders import PLACE
from tests.support.repository import git
from tests.support.running import Ended
from tests.support.serving import Home, until

# A hook or a note that takes longer hangs: on a FIFO, a device, an endless file.
_PATIENCE_SECONDS = 120.0
_LARGEST = 1 << 26
_WITHOUT_GIT = re.compile(rb"\.git(/|$)")


class _AsByDefault(Home):
    """A home with all of dreamd's folders where they are by default."""

    @property
    def socket(self) -> Path:
        return self.folder / ".run/dreamd/dreamd.sock"

    @property
    def config(self) -> Path:
        return self.folder / ".config/dreamd/config.yaml"

    def environment(self, **more: str) -> dict[str, str]:
        given = super().environment(XDG_RUNTIME_DIR=str(self.folder / ".run"), **more)
        own = {"OPENAI_API_KEY", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} - more.keys()
        return {name: value for name, value in given.items() if name not in own}


@dataclass(frozen=True, slots=True)
class Developer:
    """Somebody with projects in a home folder, and all of dreamd's folders below it."""

    home: Path

    @property
    def data(self) -> Path:
        return self.home / ".local/share/dreamd"

    def environment(self, **more: str) -> dict[str, str]:
        return _AsByDefault(self.home).environment(**more)

    def dreamd(
        self,
        folder: Path,
        *words: str | Path,
        stdin: bytes = b"",
        before: tuple[str, Sequence[Any]] | None = None,
        **more: str,
    ) -> Ended:
        """Run `dreamd` in this folder; `before` as in `Forked`."""
        ended = forked.run(
            words,
            stdin=stdin,
            environment=self.environment(**more),
            before=before,
            folder=folder,
            seconds=_PATIENCE_SECONDS,
        )
        said = Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())
        assert "Traceback" not in said.err, f"{words}: {said.err}"
        assert "a defect" not in said.err, f"{words}: {said.err}"
        return said

    def do(self, folder: Path, *words: str | Path) -> Ended:
        """Run a command that must succeed."""
        ended = self.dreamd(folder, *words)
        assert ended.status == 0, f"{words}: {ended.out}{ended.err}"
        return ended

    def note(self, folder: Path, text: str) -> None:
        self.do(folder, "note", text)

    def repository(self, name: str) -> Path:
        """Make a repository with one commit."""
        top = self.home / name
        top.mkdir(parents=True)
        git(top, "init", "--quiet", "-b", "main")
        (top / "code.py").write_text("print()\n", encoding="utf-8")
        self.commit(top)
        return top

    def commit(self, top: Path, message: str = "all") -> None:
        git(top, "add", "--all")
        git(top, "commit", "--quiet", "--allow-empty", "--message", message)

    def remembering(self, name: str, *texts: str) -> Path:
        """Make a repository, and note these texts in it."""
        top = self.repository(name)
        for text in texts:
            self.note(top, text)
        return top

    def path(self, folder: Path) -> Path:
        """Return where the memory of this folder's project is."""
        return Path(self.do(folder, "path").out.removesuffix("\n"))

    def hook(self, event: str, cwd: Path | str | None, *, at: Path | None = None, **fields: Any) -> Ended:
        """Run what an agent's hook runs, in the folder `at` (else the home folder); fields go into its message.

        Capitalised fields are variables, and `before` is as in `Forked`.
        """
        before = fields.pop("before", None)
        variables = {name: str(fields.pop(name)) for name in list(fields) if name.isupper()}
        named = {} if cwd is None else {"cwd": str(cwd)}
        message = {"session_id": "s", "transcript_path": "", "hook_event_name": event, **named, **fields}
        if event == "SessionStart":
            words = ["bootstrap", "--format", "hook", "--agent", "claude-code"]
            message = {"source": "startup", **message}
        else:
            words = ["ingest", "--hook", "--agent", "claude-code"]
        return self.dreamd(at or self.home, *words, stdin=json.dumps(message).encode(), before=before, **variables)

    def start(self, cwd: Path | str | None, **fields: Any) -> str:
        """Return what an agent is told at the start of a session in this folder."""
        ended = self.hook("SessionStart", cwd, **fields)
        assert ended.status == 0, ended.err
        if not ended.out:
            return ""
        return str(json.loads(ended.out)["hookSpecificOutput"]["additionalContext"])

    def session(self, cwd: Path, *texts: str, name: str = "session", may_fail: bool = False) -> Path:
        """Have a session of Claude Code in this folder, in which the user says this; return its transcript.

        `may_fail`: a hook may say on stderr what is wrong, with status 1; 2 would block the agent.
        """
        transcript = self.home / ".claude/projects" / f"{name}.jsonl"
        transcript.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {
                "type": "user",
                "sessionId": name,
                "uuid": f"{name}-{number}",
                "cwd": str(cwd),
                "timestamp": f"2026-11-20T10:00:{number:02}Z",
                "message": {"role": "user", "content": text},
            }
            for number, text in enumerate(texts)
        ]
        transcript.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        for event in ("SessionStart", "Stop", "SessionEnd"):
            ended = self.hook(event, cwd, session_id=name, transcript_path=str(transcript), reason="other")
            assert (ended.status in (0, int(may_fail)), ended.out if event != "SessionStart" else "") == (True, ""), (
                ended
            )
        self.settle()
        return transcript

    def settle(self) -> None:
        """Wait until the dreams that hooks have started have ended."""
        mine = os.fsencode(f"HOME={self.home}")

        def is_mine(process: Path) -> bool:
            with suppress(OSError):
                return mine in (process / "environ").read_bytes().split(b"\0")
            return False

        until(lambda: not any(map(is_mine, Path("/proc").glob("[0-9]*"))))

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the daemon until the end of the block."""
        home = _AsByDefault(self.home)
        home.config.parent.mkdir(parents=True, exist_ok=True)
        home.configure()
        with home.serving():
            yield

    def knows(self, folder: Path, text: str) -> bool:
        """Return whether an agent in this folder is told the text."""
        return text in self.start(folder)

    def memories(self) -> set[str]:
        """Return the names of the folders with a memory, whosever it is."""
        files = ("MEMORY.md", "state.db", "inbox.md")
        return {path.parent.name for name in files for path in self.data.glob(f"*/{name}")}

    def holders(self, text: str) -> set[str]:
        """Return which memories have a text in some file, and which other files of the home have it."""
        found = set[str]()
        for place, _, names in os.walk(self.home):
            for path in (Path(place, name) for name in names):
                is_plain = path.is_file() and not path.is_symlink() and path.stat().st_size < _LARGEST
                if is_plain and text.encode() in path.read_bytes():
                    inside = path.is_relative_to(self.data)
                    found.add(path.relative_to(self.data).parts[0] if inside else str(path.relative_to(self.home)))
        return found


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file, folder and link of a folder but what is in its .git, with what it contains."""
    found: dict[str, bytes] = {}
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            relative = str(path.relative_to(folder))
            if not _WITHOUT_GIT.match(os.fsencode(relative)):
                found[relative] = path.read_bytes() if path.is_file() else b""
    return found


@contextmanager
def at_home() -> Iterator[Developer]:
    """A developer who has nothing yet. The path is short, as a socket's must be."""
    with tempfile.TemporaryDirectory(prefix="ada-", dir=PLACE, ignore_cleanup_errors=True) as home:
        developer = Developer(Path(home))
        (developer.home / ".run").mkdir(mode=0o700)
        yield developer
        developer.settle()
