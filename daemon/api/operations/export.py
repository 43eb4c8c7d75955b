"""A backup: the whole workspace in one file."""

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Request, operation
from daemon.upkeep.export import Exported, export
from daemon.workspace.stores import utc_now


class Export(Request):
    """For whom the archive is."""

    process: int = Field(
        default=0, ge=0, lt=10**9, description="The process that moves it away: when that is gone, it is removed"
    )


@operation("export", "/archive", remote=False, long=True, reads=True)
def export_archive(access: WorkspaceAccess, request: Export) -> Exported:
    """Write an archive of the workspace into its state folder, for the caller to move away."""
    with access.exclusive(wait=True) as store:
        return export(store, utc_now(), request.process)
