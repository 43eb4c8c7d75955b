"""A backup: the whole workspace in one file."""

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Operation, Request
from daemon.upkeep.export import Exported, export
from daemon.workspace.stores import utc_now


class Export(Request):
    """For whom the archive is."""

    process: int = Field(
        default=0, ge=0, lt=10**9, description="The process that moves it away: when that is gone, it is removed"
    )


def _export(desk: WorkspaceAccess, asked: Export) -> Exported:
    with desk.in_turn() as store:
        return export(store, utc_now(), asked.process)


EXPORT = Operation(
    name="export",
    method="POST",
    path="/archive",
    summary="Write an archive of the workspace into its state folder, for the caller to move away.",
    request=Export,
    reply=Exported,
    run=_export,
    remote=False,
    long=True,
    reads=True,
)
