"""Operations for the upkeep of a workspace: forget a text, check and repair the stores, write an archive."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from daemon.api.access import WorkspaceAccess
from daemon.api.client import Client, NoDaemonError
from daemon.api.operations.operation import Arg, operation
from daemon.api.text import findings_text, receipt_text, repair_text
from daemon.upkeep.doctor import examine as everything
from daemon.upkeep.doctor import look_up_beside
from daemon.upkeep.examine import Finding, Level, check_stores
from daemon.upkeep.export import Exported, export
from daemon.upkeep.forget import Receipt, forget, preview_forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.upkeep.repair import Repair, repair, survey
from daemon.workspace.stores import utc_now
from state.errors import ConfirmRequiredError
from state.forgetting.cutting import Cut
from state.stores.disk.workspace import Workspace

# So many characters fit into a request body even if JSON escapes each of them.
MAX_CHARACTERS = 80_000
MAX_KEPT = 1_000


@operation("forget", long=True, text=receipt_text)
def forget_text(
    access: WorkspaceAccess,
    text: Annotated[
        str,
        Arg(
            "A text, or the id of a crystal, a line (L12) or a memory; empty: what was interrupted",
            place=True,
            max_length=MAX_CHARACTERS,
        ),
    ] = "",
    words: Annotated[bool, Arg("Only the words themselves go, not the sentences that hold them")] = False,
    kept: Annotated[
        tuple[str, ...],
        Arg(
            "Ids that a dry run lists: their texts stay, all others that say it go",
            max_length=MAX_KEPT,
            alias="except",
        ),
    ] = (),
    dry_run: Annotated[bool, Arg("Say what would go, and change nothing")] = False,
    lift: Annotated[bool, Arg("Let it be learnt again; nothing comes back")] = False,
    confirm: Annotated[bool, Arg("It cannot be undone: say true")] = False,
) -> Receipt:
    """Erase a text from everything that is remembered, search every byte for it, and say where it was."""
    wish = ForgetRequest(text, Cut.WORDS if words else Cut.SENTENCES, kept)
    if lift:
        with access.write() as store:
            return unforget(store.connection, text, utc_now())
    if not dry_run and not confirm:
        raise ConfirmRequiredError(
            "what is forgotten cannot be brought back", "say confirm=true, or dry_run=true first"
        )
    with access.exclusive() as store:
        if dry_run:
            return preview_forget(store, wish, utc_now())
        receipt = forget(store, wish, utc_now(), access.report)
    access.mark_changed()
    return receipt


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings, including those that are in order."""

    findings: tuple[Finding, ...]


@operation("doctor", long=True, reads=True, text=findings_text)
def doctor(access: WorkspaceAccess) -> Findings:
    """Check everything and say what to do: configuration, model, files, stores. Nothing is asked of the network."""

    def stores() -> Iterator[Finding]:
        with access.exclusive() as store:
            yield from check_stores(store)

    # The daemon must not import litellm, whose memory it could never free.
    found = everything(access.workspace, lambda: access.config, lambda: _service(access), stores, look_up_beside)
    return Findings(tuple(found))


def _service(access: WorkspaceAccess) -> Iterator[Finding]:
    """Yield whether a daemon looks after the workspace, and the problems it reports."""
    service = access.service()
    if service is None:
        yield _unkept(access.workspace)
        return
    for problem in service.problems:
        yield Finding("service", Level.PROBLEM, problem.what, problem.advice)
    if not service.problems:
        what = f"the daemon runs (process {service.pid}) and keeps this workspace"
        yield Finding("service", Level.OK, what)


def _unkept(workspace: Workspace) -> Finding:
    """Return why no daemon looks after the workspace: none runs, it is not registered, or the daemon refuses it."""
    try:
        info = Client.at(os.environ).get("/v1/workspaces")
    except NoDaemonError:
        advice = "'dreamd install-service' has this machine run one"
        return Finding("service", Level.OK, "no daemon runs: dreams by hand", advice)
    runs = f"the daemon runs (process {info['pid']}, version {info['version']})"
    kept = next((one for one in info["workspaces"] if one["root"] == str(workspace.root)), None)
    if kept is None or kept["problem"] is None:
        what, advice = f"{runs} and does not keep this workspace", f"'dreamd init {workspace.root}' makes it known"
        return Finding("service", Level.WARNING, what, advice)
    return Finding(
        "service", Level.PROBLEM, f"{runs} and refuses: {kept['problem']['what']}", kept["problem"]["advice"]
    )


@operation("repair", remote=False, long=True, text=repair_text)
def repair_workspace(
    access: WorkspaceAccess,
    dry: Annotated[bool, Arg("True: say what would be done, and do nothing")] = False,
) -> Repair:
    """Mend what is broken in the workspace's files and stores; the broken originals are kept aside."""
    with access.offline() as vacant:
        if dry:
            return survey(access.workspace, access.config, vacant.check)
        return repair(access.workspace, access.config, vacant.check, vacant.embedding, access.report)


@operation("export", remote=False, long=True, reads=True)
def export_archive(access: WorkspaceAccess) -> Exported:
    """Write an archive of the workspace into its state folder, for the caller to move away."""
    with access.exclusive(wait=True) as store:
        return export(store, utc_now())
