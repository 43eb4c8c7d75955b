"""Making a broken workspace work again."""

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Request, operation
from daemon.upkeep.repair.run import Repair, repair, survey


class Mending(Request):
    """Whether for real."""

    dry: bool = Field(default=False, description="True: say what would be done, and do nothing")


@operation("repair", "/repair", remote=False, long=True)
def repair_workspace(access: WorkspaceAccess, request: Mending) -> Repair:
    """Mend what is broken in the workspace's files and stores; the broken originals are kept aside."""
    with access.offline() as vacant:
        if request.dry:
            return survey(access.workspace, access.config, vacant.check, vacant.embedding)
        return repair(access.workspace, access.config, vacant.check, vacant.embedding, access.report)
