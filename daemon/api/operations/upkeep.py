"""Operations that look after a workspace: forget a text, examine and repair the stores, write an archive."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ConfigDict, Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Nothing, Request, operation
from daemon.upkeep.doctor import examine as everything
from daemon.upkeep.doctor import look_up_beside
from daemon.upkeep.examine import Finding, Level, check_stores
from daemon.upkeep.export import Exported, export
from daemon.upkeep.forget import Receipt, forget, preview_forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.upkeep.repair.run import Repair, repair, survey
from daemon.workspace.stores import utc_now
from state.errors import ConfirmRequiredError
from state.forgetting.cutting import Cut

# As JSON escapes them, so many fit into the body of a request, whatever they are.
MAX_CHARACTERS = 80_000
MAX_KEPT = 1_000


class ForgetText(Request):
    """What is to be forgotten, and how much goes with it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    text: str = Field(
        default="",
        max_length=MAX_CHARACTERS,
        description="A text, or the id of a crystal, a line (L12) or a memory; empty: what was interrupted",
    )
    words: bool = Field(default=False, description="Only the words themselves go, not the sentences that hold them")
    kept: tuple[str, ...] = Field(
        default=(),
        validation_alias="except",
        serialization_alias="except",
        max_length=MAX_KEPT,
        description="Ids that a dry run lists: their texts stay, all others that say it go",
    )
    dry_run: bool = Field(default=False, description="Say what would go, and change nothing")
    lift: bool = Field(default=False, description="Let it be learnt again; nothing comes back")
    confirm: bool = Field(default=False, description="It cannot be undone: say true")


@operation("forget", "/forget", long=True)
def forget_text(access: WorkspaceAccess, request: ForgetText) -> Receipt:
    """Erase a text from everything that is remembered, search every byte for it, and say where it was."""
    wish = ForgetRequest(request.text, Cut.WORDS if request.words else Cut.SENTENCES, request.kept)
    if request.lift:
        with access.write() as store:
            return unforget(store, request.text, utc_now())
    if not request.dry_run and not request.confirm:
        raise ConfirmRequiredError(
            "what is forgotten cannot be brought back", "say confirm=true, or dry_run=true first"
        )
    with access.exclusive() as store:
        if request.dry_run:
            return preview_forget(store, wish, utc_now())
        receipt = forget(store, wish, utc_now(), access.report)
    access.mark_changed()
    return receipt


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found, sound or not."""

    findings: tuple[Finding, ...]


@operation("examine", "/examination", long=True)
def examine(access: WorkspaceAccess, _: Nothing) -> Findings:
    """Look into the stores of the workspace; a torn index is built anew."""
    with access.exclusive() as store:
        return Findings(tuple(check_stores(store)))


@operation("doctor", "/doctor", long=True, reads=True)
def doctor(access: WorkspaceAccess, _: Nothing) -> Findings:
    """Check everything and say what to do: configuration, model, files, stores. Nothing is asked of the network."""

    def stores() -> Iterator[Finding]:
        with access.exclusive() as store:
            yield from check_stores(store)

    # The daemon does not load litellm: what is imported never goes.
    found = everything(access.workspace, lambda: access.config, lambda: _service(access), stores, look_up_beside)
    return Findings(tuple(found))


def _service(access: WorkspaceAccess) -> Iterator[Finding]:
    """Say whether the daemon keeps the workspace, and what it knows to be wrong with it."""
    service = access.service()
    if service is None:
        advice = "'dreamd install-service' has systemd run one"
        yield Finding("service", Level.OK, "no daemon keeps this workspace: dreams by hand", advice)
        return
    for problem in service.problems:
        yield Finding("service", Level.PROBLEM, problem.what, problem.advice)
    if not service.problems:
        what = f"the daemon runs (process {service.pid}) and keeps this workspace"
        yield Finding("service", Level.OK, what)


class RepairRequest(Request):
    """Whether for real."""

    dry: bool = Field(default=False, description="True: say what would be done, and do nothing")


@operation("repair", "/repair", remote=False, long=True)
def repair_workspace(access: WorkspaceAccess, request: RepairRequest) -> Repair:
    """Mend what is broken in the workspace's files and stores; the broken originals are kept aside."""
    with access.offline() as vacant:
        if request.dry:
            return survey(access.workspace, access.config, vacant.check, vacant.embedding)
        return repair(access.workspace, access.config, vacant.check, vacant.embedding, access.report)


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
