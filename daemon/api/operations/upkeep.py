"""Operations for the upkeep of a workspace: forget a text, check and repair the stores, write an archive."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from daemon.api.access import WorkspaceAccess
from daemon.api.client import Client, NoDaemonError
from daemon.api.operations.operation import Arg, operation
from daemon.api.shapes import shorten
from daemon.upkeep.doctor import examine as everything
from daemon.upkeep.export import Exported, export
from daemon.upkeep.forget import Receipt, forget, preview_forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.upkeep.repair import Repair, repair, survey
from daemon.workspace.checks import Finding, Level
from daemon.workspace.stores import utc_now
from state.errors import ConfirmRequiredError
from state.forgetting.cutting import Cut
from state.stores.disk.workspace import Workspace
from state.text.words import counted

# So many characters fit into a request body even if JSON escapes each of them.
MAX_CHARACTERS = 80_000
MAX_KEPT = 1_000


def receipt_text(receipt: Receipt) -> str:
    """Show what was (or would be) forgotten, and what is left of it."""
    if receipt.lifted or not receipt.cut:
        return "it may be learnt again" if receipt.lifted else "it was not forgotten; nothing was changed"
    rows = ["an earlier forgetting was interrupted; it is finished with this one"] if receipt.went_on else []
    nowhere = "it was nowhere; it will not be learnt"
    rows.append("would go:" if receipt.dry_run else "forgotten:" if receipt.traces else nowhere)
    for number, said in enumerate(receipt.texts, 1):
        places = ", ".join(f"{place.kind} {place.id}" for place in said.places)
        rows.append(f"  {number}. {shorten(said.text)}")
        rows.append(f"     {places}{', in other words' if said.derived else ''}")
    rows += [f"  {trace.place}: {trace.count:,}" for trace in receipt.traces]
    if not receipt.dry_run:
        left = "nothing of it is left" if receipt.clean else "some of it is left"
        rows.append(f"searched afterwards: {counted(receipt.files, 'file')}, {receipt.bytes:,} bytes: {left}")
        kept = f", but for what {counted(receipt.kept, 'kept text')} may say" if receipt.kept else ""
        rows.append(f"it will not be learnt again{kept}; 'dreamd forget --lift' changes that")
        rows.append(f"known again: {receipt.recognised}")
    return "\n".join([*rows, *(f"  {left.place}: {left.count:,}, {left.why}" for left in receipt.left)])


@operation("forget", long=True, text=receipt_text, names_files=True, erases=True)
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


def findings_text(found: Findings) -> str:
    """List the result of every check."""
    return "\n".join(map(_finding_row, found.findings))


def _finding_row(one: Finding) -> str:
    return f"{one.level:<8} {one.about:<13} {one.what}" + (f"; {one.advice}" if one.advice else "")


@operation("doctor", long=True, reads=True, text=findings_text, operator=True)
def doctor(access: WorkspaceAccess) -> Findings:
    """Check everything and say what to do: configuration, model, files, stores. Nothing is asked of the network."""
    found = everything(access.workspace, lambda: access.config, lambda: _service_findings(access), access.exclusive)
    return Findings(tuple(found))


def _service_findings(access: WorkspaceAccess) -> Iterator[Finding]:
    """Yield whether a daemon looks after the workspace, and the problems it reports."""
    service = access.service()
    if service is None:
        yield _why_unkept(access.workspace)
        return
    for problem in service.problems:
        yield Finding("service", Level.PROBLEM, problem.what, problem.advice)
    if not service.problems:
        what = f"the daemon runs (process {service.pid}) and keeps this workspace"
        yield Finding("service", Level.OK, what)


def _why_unkept(workspace: Workspace) -> Finding:
    """Return why no daemon looks after the workspace: none runs, it is kept away, or the daemon refuses it."""
    try:
        info = Client.at(os.environ).get("/v1/workspaces")
    except NoDaemonError:
        advice = "'dreamd install-service' has this machine run one"
        return Finding("service", Level.OK, "no daemon runs: dreams by hand", advice)
    runs = f"the daemon runs (process {info['pid']}, version {info['version']})"
    kept = next((one for one in info["workspaces"] if one["name"] == workspace.name), None)
    if kept is None or kept["problem"] is None:
        what, advice = f"{runs} and does not keep this workspace", f"'dreamd init {workspace.root}' makes it known"
        return Finding("service", Level.WARNING, what, advice)
    return Finding(
        "service", Level.PROBLEM, f"{runs} and refuses: {kept['problem']['what']}", kept["problem"]["advice"]
    )


def repair_text(done: Repair) -> str:
    """Show what was broken and repaired, what is still wrong, and where the originals are."""
    word, verb, rows = *(("broken", "would be done") if done.dry else ("mended", "done")), list[str]()
    for mend in done.mends:
        rows.append(f"{word:<8} {mend.about:<13} {mend.wrong}; {verb}: {mend.deed}")
        rows += [f"{'':<22} {result}" for result in mend.results]
    rows += map(_finding_row, done.left)
    if done.kept:
        rows.append(f"{'kept':<8} {'originals':<13} in {done.aside}; when everything is well: rm -r '{done.aside}'")
        rows += [f"{'':<22} {path}" for path in done.kept]
    return "\n".join(rows if done.mends else [*rows, "nothing that can be mended is broken; nothing was changed"])


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
