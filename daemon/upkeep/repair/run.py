"""Repair: `dreamd doctor --repair` makes a broken workspace work again and loses nothing that can still be read.

    links, folders, permissions ─> state.db ─> MEMORY.md ─> checkpoints ─> indexes ─> a look

Each step finds what is wrong once those before it are done, says it, and mends it. Whatever is replaced is kept aside
first. A step that was cut off anywhere is done by the next repair; one that finds nothing changes nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.upkeep.examine import Finding, Level, check_stores
from daemon.upkeep.repair.database import database
from daemon.upkeep.repair.document import displaced, document
from daemon.upkeep.repair.files import derived, files, indexes, unmendable
from daemon.upkeep.repair.jobs import Job, RepairContext
from daemon.workspace.stores import open_owned, recover, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.errors import DreamdError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RepairResult:
    """A fault, what was (or would be) done about it, and the results."""

    about: str
    wrong: str
    deed: str
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair. `left` is what is still wrong; replaced files are `kept` in the folder `aside`."""

    mends: tuple[RepairResult, ...] = ()
    left: tuple[Finding, ...] = ()
    aside: str = ""
    kept: tuple[str, ...] = ()
    dry: bool = False


def repair(
    workspace: Workspace,
    config: Config,
    check: Callable[[], None],
    embedding: Embedding,
    on_step: Callable[[Step], None] = lambda _: None,
    disk: Disk | None = None,
) -> Repair:
    """Mend everything that can be mended. The caller owns the workspace and has none of its stores open.

    Raise StorageError when the disk refuses or has no room; what was done until then stands, and may be done again.
    """
    context = RepairContext(workspace, config, disk or workspace.disk(), check, embedding, utc_now())
    mends, left = list[RepairResult](), list(unmendable(workspace))

    def mend(job: Job) -> None:
        check()
        mends.append(RepairResult(job.about, job.wrong, job.action, job.do() or ()))
        on_step(Step(job.about, f"{job.wrong}: {job.action}"))

    for job in _jobs(context):
        mend(job)
    if workspace.database.is_symlink():
        left.append(Finding("stores", Level.WARNING, "not looked into: state.db is a link"))
    else:
        left += _stores(context, mends, mend)
    return Repair(tuple(mends), tuple(left), context.aside, tuple(context.kept))


def survey(workspace: Workspace, config: Config, check: Callable[[], None], embedding: Embedding) -> Repair:
    """Return what `repair` would do, as far as it shows before anything is done. Nothing is written."""
    context = RepairContext(workspace, config, workspace.disk(), check, embedding, utc_now())
    mends = tuple(RepairResult(job.about, job.wrong, job.action) for job in _jobs(context))
    return Repair(mends, tuple(unmendable(workspace)), dry=True)


def _jobs(context: RepairContext) -> Iterator[Job]:
    """Yield the jobs before the stores are opened, each found when those before it are done."""
    yield from files(context)
    yield from database(context)
    yield from displaced(context)
    yield from document(context)
    yield from derived(context)


def _stores(context: RepairContext, mends: list[RepairResult], mend: Callable[[Job], None]) -> Iterator[Finding]:
    """Open the stores, finish interrupted commits, repair the indexes; yield what is still wrong."""
    with (
        closing(Index(context.workspace, context.check)) as indexing,
        closing(open_owned(context.workspace, context.config, context.check, context.embedding, indexing)) as store,
    ):
        try:
            recover(store)
        except DreamdError as error:
            yield Finding("commit", Level.PROBLEM, error.what, error.advice)
        for notice in store.notices:
            topic = "word index" if "index" in notice else "commit"
            mends.append(RepairResult(topic, f"the {topic} was found torn or unfinished", notice))
        store.notices.clear()
        for job in indexes(context, store):
            mend(job)
        store.notices.clear()
        for finding in check_stores(store):
            if finding.level is Level.PROBLEM or (finding.level is Level.WARNING and finding.about == "history"):
                yield finding
