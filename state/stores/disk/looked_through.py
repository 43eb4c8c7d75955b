"""Looked through: digests of texts in which the secret rules found nothing, so that they need not be checked again.

Loading the rules takes longer than the rest of a session start, and the texts that it shows were checked when they
were noted, dreamt or shown before. The file is among the temporary ones, so a forgetting deletes it. Digests made
with other rules or settings are ignored.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from zlib import crc32

from state.document.redaction import Grounds, no_grounds, redacted_lines
from state.secrets.policy import NOUNS, Redaction
from state.stores.disk.workspace import Workspace

MOST = 4_000
"""With more digests than this, the file is begun anew."""
_DIGEST_CHARACTERS = 24
_LINES = "line by line: "


class LookedThrough:
    """Remembers in which texts of one workspace these rules found no secret."""

    def __init__(self, workspace: Workspace, redaction: Redaction) -> None:
        self._path = workspace.checkpoints / "looked_through"
        self._redaction = redaction
        self._rules = _digest(repr((_rules(), redaction.on, sorted(redaction.allow))))
        self._known: set[str] | None = None
        self._new: list[str] = []

    def redacted(self, text: str) -> str:
        """Return a note without its secrets."""
        return self._shown(text, _digest(text), self._redaction.of)

    def redacted_lines(self, text: str, grounds: Grounds = no_grounds) -> str:
        """Return a MEMORY.md without its secrets, line by line."""
        digest = _digest(f"{_LINES}{text}")  # as one text it may hold what looks like a secret
        return self._shown(text, digest, lambda text: redacted_lines(text, self._redaction, grounds))

    def _shown(self, text: str, digest: str, redacted: Callable[[str], str]) -> str:
        if not self._redaction.on or not text:
            return text
        if self._known is None:
            self._known = _read(self._path, self._rules)
        if digest in self._known:
            return text
        shown = redacted(text)
        if shown == text:
            self._known.add(digest)
            self._new.append(digest)
        return shown

    def keep(self, *texts: str) -> None:
        """Save the texts without secrets: those found so far, and these, which the caller has checked.

        The file is not synced and failures are ignored: such texts are merely checked again.
        """
        rows = [*self._new, *map(_digest, texts)]
        self._new = []
        if not rows or not self._redaction.on:
            return
        with suppress(OSError):
            known = _read(self._path, self._rules)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
            is_anew = not known or len(known) > MOST
            fd = os.open(self._path, flags | (os.O_TRUNC if is_anew else os.O_APPEND), 0o600)
            try:
                os.write(fd, "".join(f"{row}\n" for row in ([self._rules, *rows] if is_anew else rows)).encode())
            finally:
                os.close(fd)


@cache
def _rules() -> tuple[tuple[str, int, int], ...]:
    """Return what distinguishes these rules from another release's: their files with sizes and times."""
    secrets = NOUNS.parent
    folders = (secrets, secrets / "rules", secrets / "languages", secrets / "told", secrets.with_name("text"))
    files = (entry for folder in folders for entry in os.scandir(folder) if entry.is_file())
    return tuple(sorted((entry.path, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files))


def _read(path: Path, rules: str) -> set[str]:
    """Return the file's rows, the rules' digest and those of texts; none if they were made with other rules."""
    with suppress(OSError, UnicodeDecodeError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            rows = os.read(fd, MOST * 2 * _DIGEST_CHARACTERS).decode("ascii").split("\n")
        finally:
            os.close(fd)
        return set(rows) if rows[0] == rules else set()
    return set()


def _digest(text: str) -> str:
    # No cryptographic digest is needed: whoever could write a colliding text here has the secret already. `hashlib`
    # is slow to import.
    content = text.encode("utf-8", "surrogatepass")
    return f"{crc32(content):08x}{crc32(content[::-1]):08x}{len(content):08x}"
