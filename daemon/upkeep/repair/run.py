"""Repair: `dreamd doctor --repair` makes a broken workspace work again and loses nothing that can still be read.

    links, folders, permissions ─> state.db ─> MEMORY.md ─> checkpoints ─> indexes ─> a look

Each step finds what is wrong once those before it are done, says it, and mends it. Whatever is replaced is kept aside
first. A step that was cut off anywhere is done by the next repair; one that finds nothing changes nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.upkeep.examine import Finding, Level, check_stores
from daemon.upkeep.repair.database import database
from daemon.upkeep.repair.document import displaced, document
from daemon.upkeep.repair.files import files, links, owners
from daemon.upkeep.repair.indexes import checkpoints, indexes, vector_folder
from daemon.upkeep.repair.jobs import Job, RepairContext
from daemon.upkeep.repair.quarantine import Quarantine
from daemon.workspace.stores import Store, open_owned, recover, utc_now
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


@dataclass(slots=True)
class _Report:
    on_step: Callable[[Step], None]
    mends: list[RepairResult] = field(default_factory=list)

    def done(self, job: Job, results: tuple[str, ...] = ()) -> None:
        self.mends.append(RepairResult(job.about, job.wrong, job.action, results))
        self.on_step(Step(job.about, f"{job.wrong}: {job.action}"))


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
    context = _repairing(workspace, config, check, embedding, disk)
    report = _Report(on_step)
    left = [*links(workspace), *owners(workspace)]
    for job in _jobs(context):
        check()
        report.done(job, job.do() or ())
    if workspace.database.is_symlink():
        left.append(Finding("stores", Level.WARNING, "not looked into: state.db is a link"))
    else:
        left += _stores(context, report)
    return Repair(tuple(report.mends), tuple(left), context.aside.folder, tuple(context.aside.kept))


def survey(workspace: Workspace, config: Config, check: Callable[[], None], embedding: Embedding) -> Repair:
    """Return what `repair` would do, as far as it shows before anything is done. Nothing is written."""
    context = _repairing(workspace, config, check, embedding, None)
    report = _Report(lambda _: None)
    left = (*links(workspace), *owners(workspace))
    for job in _jobs(context):
        report.done(job)
    return Repair(tuple(report.mends), left, dry=True)


def _repairing(
    workspace: Workspace, config: Config, check: Callable[[], None], embedding: Embedding, disk: Disk | None
) -> RepairContext:
    disk, now = disk or workspace.disk(), utc_now()
    return RepairContext(workspace, config, disk, check, embedding, now, Quarantine(workspace, disk, now))


def _jobs(context: RepairContext) -> Iterator[Job]:
    """Yield the jobs before the stores are opened, each found when those before it are done."""
    yield from files(context)
    yield from database(context)
    yield from displaced(context)
    yield from document(context)
    yield from checkpoints(context)
    yield from vector_folder(context)


def _stores(context: RepairContext, report: _Report) -> Iterator[Finding]:
    """Open the stores, finish interrupted commits, repair the indexes; yield what is still wrong."""
    with _opened(context) as store:
        try:
            recover(store)
        except DreamdError as error:
            yield Finding("commit", Level.PROBLEM, error.what, error.advice)
        for notice in store.notices:
            topic = "word index" if "index" in notice else "commit"
            report.mends.append(RepairResult(topic, f"the {topic} was found torn or unfinished", notice))
        store.notices.clear()
        for job in indexes(context, store):
            context.check()
            report.done(job, job.do() or ())
        store.notices.clear()
        for finding in check_stores(store):
            if finding.level is Level.PROBLEM or (finding.level is Level.WARNING and finding.about == "history"):
                yield finding


@contextmanager
def _opened(context: RepairContext) -> Iterator[Store]:
    with (
        closing(Index(context.workspace, context.check)) as indexing,
        closing(open_owned(context.workspace, context.config, context.check, context.embedding, indexing)) as store,
    ):
        yield store
