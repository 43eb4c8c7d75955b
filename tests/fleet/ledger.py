"""Ledger: what agents tried, and what they were told is done; written to a file before anybody goes on."""

import json
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.support.notes import marked


@dataclass(frozen=True, slots=True)
class Written:
    """Something that was acknowledged and is no note: a feeling, an item of a session, a version brought back.

    `text`: what was written; of a version brought back, the id of the dream that did it.
    """

    kind: str
    workspace: int
    text: str


class Ledger:
    """What a run knows. Any thread may call."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._last = 0
        self.tried: dict[str, int] = {}
        """Each text with the workspace that it was for."""
        self.notes: dict[str, int] = {}
        """Those that were acknowledged."""
        self.written: list[Written] = []
        self.answers: Counter[str] = Counter()
        """How often each operation was answered how."""
        self.findings: list[str] = []

    def text(self, workspace: int) -> str:
        """A text like no other, for this workspace."""
        with self._lock:
            self._last += 1
            text = marked(self._last)
            self.tried[text] = workspace
            return text

    def acknowledged(self, text: str, key: str) -> None:
        """This note was."""
        with self._lock:
            self._write({"note": text, "key": key, "workspace": self.tried[text]})
            self.notes[text] = self.tried[text]

    def wrote(self, kind: str, workspace: int, text: str) -> None:
        """This was done."""
        with self._lock:
            self._write({kind: text, "workspace": workspace})
            self.written.append(Written(kind, workspace, text))

    def answered(self, operation: str, how: object) -> None:
        with self._lock:
            self.answers[f"{operation} {how}"] += 1

    def found(self, what: str) -> None:
        """Something that must not be."""
        with self._lock:
            self.findings.append(what)

    def close(self) -> None:
        self._file.close()

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
