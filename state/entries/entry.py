"""Entry: a JSON object of a program's, kept under a namespace and a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

# A name has so many characters, a namespace so many labels, a value so many characters of JSON.
LONGEST_NAME = 1_000
MOST_LABELS = 20
LONGEST_VALUE = 102_400

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it is kept. It is gone at `expires_at`; None: it stays."""

    namespace: Namespace
    name: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EntryChange:
    """An entry to be kept, in the place of one of that name; without a value, one to be deleted.

    `fields` say which of its texts are compared by meaning (`state.entries.fields`); of `lifetime` every reading may
    begin another one.
    """

    namespace: Namespace
    name: str
    value: Mapping[str, Any] | None
    fields: tuple[str, ...] = ()
    lifetime: timedelta | None = None


@dataclass(frozen=True, slots=True)
class NamespacePattern:
    """The labels with which a namespace begins, or ends; `*` is any one."""

    labels: Namespace
    at_end: bool = False

    def fits(self, namespace: Namespace) -> bool:
        """Whether the namespace begins (ends) so."""
        count = len(self.labels)
        if count > len(namespace):
            return False
        part = namespace[len(namespace) - count :] if self.at_end else namespace[:count]
        return all(wanted in ("*", label) for wanted, label in zip(self.labels, part, strict=True))
