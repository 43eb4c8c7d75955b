"""JSON file: reads and writes files of this user's, and changes one entry of an agent's JSON file."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from state.errors import DocumentError, DreamdError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a JSON file: the value at `keys`, or, with `ours`, one of the list there.

    `ours`: a pattern of dreamd's own items in the list. `head`: what an empty file begins with. A copy of the file as
    it was goes into `copies`, and comes back when the entry is taken out, if nothing else was changed meanwhile.
    """

    path: Path
    keys: tuple[str, ...]
    value: object
    copies: Path
    ours: str = ""
    head: Mapping[str, object] = field(default_factory=dict)

    def change(self) -> str:
        """Return what is to be written. Raise DocumentError for a file that is not plain JSON."""
        text = read(self.path) or ""
        before, after = self._parsed(text), self._changed(text, present=True)
        old, new = (_json(at(one, self.keys)) for one in (before, after))
        return f"{self.path}: {'.'.join(self.keys)}\n    before: {old}\n    after: {new}" if before != after else ""

    def put(self) -> None:
        text = read(self.path)
        self._write(text, self._changed(text or "", present=True))

    def remains(self) -> str:
        text = read(self.path) or ""
        if "dreamd" not in text or self._parsed(text) == self._changed(text, present=False):
            return ""
        return f"{self.path}: take out {'.'.join(self.keys)}"

    def take(self) -> None:
        if not self.remains():
            return
        text = read(self.path) or ""
        data = self._changed(text, present=False)
        former = self._former(data)
        if former is not None:
            write(self.path, former)
        elif data in ({}, self.head) and not self.path.is_symlink():
            with storage_errors(self.path):
                self.path.unlink(missing_ok=True)
        else:
            self._write(text, data)

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            data = json.loads(text, object_pairs_hook=_unique) if text.strip() else dict(self.head)
            return self._checked(data, dict)
        except (ValueError, RecursionError) as error:
            what = f"{self.path} is not plain JSON ({error}), and dreamd changes no file with comments"
            value = json.dumps([self.value] if self.ours else self.value, indent=2)
            raise DocumentError(what, f"put in, or take out, {'.'.join(self.keys)} by hand:\n{value}") from error

    def _checked(self, value: object, kind: type[Kind]) -> Kind:
        if not isinstance(value, kind):
            raise DocumentError(
                f"{self.path}: {'.'.join(self.keys)} has another form there", "mend it, and try again"
            )
        return value

    def _changed(self, text: str, *, present: bool) -> dict[str, Any]:
        """Return the content of a file with the entry, or without it and what it leaves empty."""
        data = self._parsed(text)
        within = [data]
        for key in self.keys[:-1]:
            within.append(self._checked(within[-1].setdefault(key, {}), dict))
        kept = within[-1].pop(self.keys[-1], None)
        items = self._checked(kept or [], list) if self.ours else []
        others = [one for one in items if not re.search(self.ours, json.dumps(one))]
        if present or others:
            new = self.value if not self.ours else [*others, self.value] if present else others
            within[-1][self.keys[-1]] = new
        for above, key in reversed([*zip(within, self.keys[:-1], strict=False)]):
            if not above[key]:
                del above[key]
        return data

    def _write(self, text: str | None, data: Mapping[str, object]) -> None:
        """Write the file in the indentation that it had, after a copy of its text."""
        copy = self.copies / f"{datetime.now(UTC):%Y%m%dT%H%M%S}{self._copied}"
        if text is not None and not copy.exists():
            write(copy, text)
        indent = re.search(r"\n([ \t]+)", text or "")
        write(self.path, _json(data, indent=indent[1] if indent else 2) + "\n")

    def _former(self, data: Mapping[str, object]) -> str | None:
        """Return the file as it was before anything of dreamd was in it, if that says the same as `data`."""
        for copy in sorted(self.copies.glob("*"), reverse=True):
            text = (read(copy) or "") if copy.name.endswith(self._copied) else "dreamd"
            with suppress(DocumentError):
                if "dreamd" not in text and self._changed(text, present=False) == data:
                    return text
        return None

    @property
    def _copied(self) -> str:
        return f"-{self.path.parent.name}-{self.path.name}"


def read(path: Path) -> str | None:
    """Return what a file of this user's holds; None without one. Raise StorageError if it cannot be read."""
    with storage_errors(path), suppress(FileNotFoundError, NotADirectoryError):
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise StorageError(f"{path} is not UTF-8", "save it as UTF-8, and try again") from error
    return None


def write(path: Path, text: str) -> None:
    """Write a file of this user's, which may be a link into a folder of dotfiles; a new one is private."""
    target = Path(os.path.realpath(path))
    with storage_errors(path):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    Disk(target.parent).write_atomic(target, text.encode())


def _json(data: object, indent: str | int | None = None) -> str:
    """Return JSON in plain letters; half an emoji, which UTF-8 cannot hold, as the escape that it was read from."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def at(data: object, keys: Sequence[str]) -> object:
    """Return what is at the keys of a parsed file, or None."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def json_at(path: Path, *keys: str) -> object:
    """Return what is at the keys of a JSON file, or None."""
    with suppress(ValueError, DreamdError):
        return at(json.loads(read(path) or "{}"), keys)
    return None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; refuse one that names a key twice, since the former would be lost."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("it names a key twice")
    return found
