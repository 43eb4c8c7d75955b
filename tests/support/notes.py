"""Notes of a workspace as a test asks for them."""

from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.notes import notes_of


def pending_notes(workspace: Workspace) -> tuple[Note, ...]:
    """Return every note that no dream has consumed, oldest first."""
    with notes_of(workspace, "rw") as notes:
        return tuple(notes.each_pending())
