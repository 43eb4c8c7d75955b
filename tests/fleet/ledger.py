"""Ledger: what agents tried, and what they were told is done; written to a file before anybody goes on."""

import json
import threading
from collections import Counter, defaultdict
from pathlib import Path

from tests.support.notes import marked


class Ledger:
    """What a run knows. Any thread may call."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._last = 0
        self.tried: dict[str, int] = {}
        """Each text with the workspace that it was for."""
        self.written: defaultdict[int, dict[str, str]] = defaultdict(dict)
        """Of each workspace what was acknowledged, with its kind: the text of a note, an item or a feeling; of a
        version that was brought back, the id of the dream that did it."""
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

    @property
    def notes(self) -> int:
        """How many notes were acknowledged."""
        with self._lock:
            return sum(kind == "note" for texts in self.written.values() for kind in texts.values())

    def wrote(self, kind: str, workspace: int, text: str) -> None:
        """This was done."""
        with self._lock:
            self._file.write(json.dumps({kind: text, "workspace": workspace}) + "\n")
            self._file.flush()
            self.written[workspace][text] = kind

    def answered(self, operation: str, how: object) -> None:
        with self._lock:
            self.answers[f"{operation} {how}"] += 1

    def found(self, what: str) -> None:
        """Something that must not be."""
        with self._lock:
            self.findings.append(what)

    def close(self) -> None:
        self._file.close()
