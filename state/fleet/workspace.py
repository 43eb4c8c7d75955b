"""Workspaces of the fleet: where one rests, who holds it, and what waits for it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from state.scratch import Note


@dataclass(frozen=True, slots=True)
class Place:
    """One workspace of the fleet: its number, and its name with that of its tenant."""

    id: int
    tenant: int
    tenant_name: str
    name: str

    @property
    def prefix(self) -> str:
        """Under which its objects lie in the store."""
        return f"{self.tenant}/{self.id}"

    @property
    def handle(self) -> str:
        """Its name among processes."""
        return f"ws-{self.id}"


@dataclass(frozen=True, slots=True)
class Generation:
    """A committed state of a workspace: its number, and the object that says what it is made of (empty: none yet)."""

    number: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a workspace: its holder, and the generation from which that goes out.

    When it was taken: the workspace was made at `created_at`, committed last at `committed_at`; `erasing_at`: since
    when something is forgotten that older generations may hold; `is_due`: something is foreseen for it.
    """

    place: Place
    owner: UUID
    generation: Generation
    created_at: datetime
    committed_at: datetime | None = None
    erasing_at: datetime | None = None
    is_due: bool = True


@dataclass(frozen=True, slots=True)
class InboxRow:
    """What came while nobody held the workspace, or beside its holder: acknowledged, and not in a generation yet.

    `kind` is `note` or `session_end`; `body` is JSON.
    """

    id: int
    kind: str
    key: str
    body: str
    at: datetime

    def note(self) -> Note:
        """Return the note that it is, with its own time or that of its arrival.

        Raises ValueError, KeyError, TypeError or AttributeError for a body that is none.
        """
        body = json.loads(self.body)
        at = datetime.fromisoformat(body.get("at") or self.at.isoformat())
        return Note(
            body["text"], at.astimezone(UTC), float(body["importance"]), replaces=str(body.get("replaces", ""))
        )
