r"""Transcript: commands and what each prints, as somebody at a terminal would see it; a test that reads as a session.

    $ dreamd note Ada prefers tea
    noted
    $ typing y | dreamd forget tea
    …nothing of it is left…
    $ busy dreamd dream
    ! dreamd: …process…
    [5]

What begins with "! " is on stderr, "[5]" is the exit status (else 0), "…" is anything, and <name> is a word that
later commands may say. Stderr is looked at only where something is expected there, or the command fails. Before
`dreamd` may stand variables, `busy` (another process has the workspace), `typing WORD … |` (a person types these
lines), and `piping TEXT |`. `write FILE TEXT` and `cat FILE` are of the workspace; \n in a TEXT is a line's end.
"""

import io
import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from state.stores.disk.lock import acquire
from tests.support.running import Caller, Ended


class Person(io.StringIO):
    """A terminal at which this is typed."""

    def isatty(self) -> bool:
        return True


class Transcript:
    """Has the commands of a transcript run in a workspace, and compares."""

    def __init__(self, dreamd: Caller, here: Path, patch: pytest.MonkeyPatch) -> None:
        self.dreamd, self.here, self.patch = dreamd, here, patch
        self.names = {"here": str(here)}

    def __call__(self, text: str, **names: object) -> Ended:
        self.names |= {name: str(value) for name, value in names.items()}
        ended = Ended(0, "", "")
        for block in re.split(r"^ *\$ ", text, flags=re.MULTILINE)[1:]:
            line, *rows = block.rstrip().split("\n")
            ended = self._run(shlex.split(re.sub(r"<(\w+)>", lambda it: shlex.quote(self.names[it[1]]), line)))
            rows = [row.strip() for row in rows if row.strip()]
            status = next((int(row[1:-1]) for row in rows if re.fullmatch(r"\[\d+\]", row)), 0)
            errors = [row[2:] for row in rows if row.startswith("! ")]
            printed = [row for row in rows if not row.startswith(("! ", "[")) or row[1:2] in '"-']
            assert ended.status == status, f"$ {line}\n{ended.out}{ended.err}[{ended.status}]"
            self._compare(line, printed, ended.out)
            if errors or status:
                self._compare(line, errors, ended.err)
        return ended

    def _compare(self, line: str, expected: list[str], said: str) -> None:
        said = "\n".join(row.strip() for row in said.split("\n") if row.strip())
        pattern = re.escape("\n".join(expected)).replace("…", ".*?")
        new = set[str]()
        pattern = re.sub(r"<(\w+)>", lambda it: self._known(it[1], new), pattern)
        found = re.fullmatch(pattern, said, re.DOTALL)
        assert found is not None, f"$ {line}\n--- expected\n" + "\n".join(expected) + f"\n--- printed\n{said}"
        self.names |= found.groupdict()

    def _known(self, name: str, new: set[str]) -> str:
        if name in self.names:
            return re.escape(self.names[name])
        if name in new:
            return f"(?P={name})"
        new.add(name)
        return rf"(?P<{name}>[^\s,;:\"']+)"

    def _run(self, words: list[str]) -> Ended:
        if words[0] == "write":
            (self.here / words[1]).parent.mkdir(parents=True, exist_ok=True)
            (self.here / words[1]).write_text(" ".join(words[2:]).replace("\\n", "\n"), encoding="utf-8")
            return Ended(0, "", "")
        if words[0] == "cat":
            return Ended(0, (self.here / words[1]).read_text(encoding="utf-8"), "")
        at = words.index("dreamd")
        before, words = words[:at], words[at + 1 :]
        with self.patch.context() as patch, ExitStack() as stack:
            patch.setenv("DREAMD_WORKSPACE", str(self.here))
            for word in before:
                if re.fullmatch(r"[A-Z_]+=.*", word, re.DOTALL):
                    patch.setenv(*word.split("=", 1))
            if "typing" in before:
                typed = before[before.index("typing") + 1 : -1]
                patch.setattr("sys.stdin", Person("".join(f"{word}\n" for word in typed)))
                patch.setattr("sys.stderr.isatty", lambda: True)
                patch.setenv("TERM", "dumb")
            elif "piping" in before:
                text = before[-2].replace("\\n", "\n").encode("utf-8", "surrogateescape")
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
            else:
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
            if "busy" in before:
                stack.enter_context(acquire(open_workspace(self.here), "another command"))
            return self.dreamd(*words)
