"""Making a broken workspace work again."""

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Operation, Request
from daemon.upkeep.repair.run import Repair, repair, survey


class Mending(Request):
    """Whether for real."""

    dry: bool = Field(default=False, description="True: say what would be done, and do nothing")


def _repair(desk: WorkspaceAccess, asked: Mending) -> Repair:
    with desk.vacant() as vacant:
        if asked.dry:
            return survey(desk.workspace, desk.config, vacant.check, vacant.embedding)
        return repair(desk.workspace, desk.config, vacant.check, vacant.embedding, desk.told)


REPAIR = Operation(
    name="repair",
    method="POST",
    path="/repair",
    summary="Mend what is broken in the workspace's files and stores; the broken originals are kept aside.",
    request=Mending,
    reply=Repair,
    run=_repair,
    remote=False,
    long=True,
)
