"""Operations on dreams: run one, show the workspace's status, list past dreams and what people did."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Moment
from daemon.api.shapes import ago, duration, facts, listed, one_row
from daemon.api.words import (
    author_words,
    outcome_words,
    proposals_words,
    reason_words,
    waiting_words,
)
from daemon.dream.run import Mode, Outcome
from daemon.journal.dream import DreamDetails, DreamRun, described, details, run_of_version, unified_diff
from daemon.journal.life import MOST_DAYS, Life
from daemon.journal.life import life as life_of
from daemon.journal.summary import Kind, done_words
from daemon.models.dreamer import who_dreams
from daemon.observability.printable import visible
from daemon.workspace.status import LastDream, Spending, Status, Verdict, status, verdict
from daemon.workspace.stores import utc_now
from state.changes.change import Change, CurrentLine
from state.document.operations import Why
from state.document.pointer import parse_pointer
from state.dream import Dream, Reason
from state.errors import StorageError, UsageError
from state.stores.database.moments import from_text, to_text
from state.stores.database.tables import Act
from state.stores.history.bootstraps import BootstrapReceipt
from state.stores.history.ledger import Which
from state.text.words import counted

_REASONS = {"manual": Reason.MANUAL, "session-end": Reason.SESSION_END}

Limit = Annotated[int, Field(ge=1, le=1_000, description="At most so many")]
Id = Annotated[str, Field(max_length=100)]


@dataclass(frozen=True, slots=True)
class Dreamt:
    """How the dream ended; None if it was only queued."""

    outcome: Outcome | None


def dream_text(reply: Dreamt) -> str:
    """Show what the dream changed, what was refused, and what it cost."""
    outcome = reply.outcome
    if outcome is None:
        return "the daemon dreams as soon as it can; 'dreamd status' shows when"
    dream = outcome.dream
    if outcome.mode == "dry":
        diff = unified_diff(dream.before, dream.after, "as it is", "after this dream")
        return f"{visible(diff)}\n{_cost_row(dream)}"
    done = done_words(dream.cause, dream.counts) or "nothing changed"
    rows = [f"version {dream.number}: {done}; {len(dream.after):,} characters"]
    if dream.joined:
        rows.append("MEMORY.md was edited meanwhile: the edit is kept, and what the dream changed stands beside it")
    rows += [f"  {row}" for row in change_rows(dream)]
    rows += [f"  refused: {one_row(one.figures)}" for one in outcome.refused]
    if outcome.proposals:
        rows.append(f"  {proposals_words(outcome.proposals)}: 'dreamd review'")
    rows.append(_cost_row(dream))
    if outcome.pending:
        why = "left for the next dreams" if dream.waiting else "what came meanwhile"
        rows.append(f"{waiting_words(outcome.pending, more=outcome.more)}: {why}")
    return "\n".join(rows)


def change_rows(dream: Dream) -> Iterator[str]:
    """Yield a row for each line that was added, revised or evicted.

    A line that came and left in the same dream, for lack of room, is only counted.
    """
    born = {line.id for line in dream.came}
    passing = {line.id for line, _ in dream.left if line.id in born}
    unshown = 0
    for change in dream.changes:
        come = [line for line in change.come if line.id not in passing and line.section != "Crystal Pointers"]
        gone = [line for line in change.gone if line.id not in passing]
        unshown += sum(line.id in passing and line.section != "Crystal Pointers" for line in change.gone)
        yield from _change_rows(change, come, gone)
    if unshown:
        yield f"{counted(unshown, 'line')} had no room and went straight to crystals"


def _change_rows(change: Change, come: Sequence[CurrentLine], gone: Sequence[CurrentLine]) -> Iterator[str]:
    """Yield a row for each line that came or left in one change."""
    for line in come:
        if gone:
            was = "; ".join(one_row(old.text) for old in gone)
            yield f"~ {line.section}: {one_row(line.text)} (was: {was})"
        else:
            yours = " (yours)" if line.trust == "owner" and not change.evidence else ""
            yield f"+ {line.section}: {one_row(line.text)}{yours}"
    if come:
        return
    pointer = next((parsed for line in change.come if (parsed := parse_pointer(line.text))), None)
    where = f"search: {pointer[1]}" if pointer else "its crystal"
    ends = {Why.EVICTED: f"(to {where})", Why.DELETED: "(you deleted it)", Why.ANSWERED: "(answered)"}
    for line in gone:
        if change.why in ends:
            yield f"- {line.section}: {one_row(line.text)} {ends[change.why]}"


def _cost_row(dream: Dream) -> str:
    usage = dream.usage
    if not usage.calls:
        return f"{author_words(dream.author)}, {counted(dream.notes, 'note')}, {dream.seconds:.1f} s"
    price = f"${usage.usd:.4f}" if usage.usd else "price not known"
    author = usage.model if dream.author == usage.model else f"{author_words(dream.author)} after {usage.model}"
    paid = f"{counted(usage.calls, 'call')}, {usage.tokens:,} tokens, {price}"
    return f"{author}: {paid}, {counted(dream.notes, 'note')}, {dream.seconds:.1f} s"


@operation("dream_now", long=True, agents="memory", text=dream_text, configured=True)
def dream_now(
    access: WorkspaceAccess,
    reason: Annotated[Literal["manual", "session-end"], Arg("For the ledger")] = "manual",
    mode: Annotated[
        Mode | None, Arg("auto (or none) writes, dry only shows what would be written", owner=True)
    ] = None,
    wait: Annotated[bool, Arg("False: ask the daemon for the dream and return at once")] = True,
) -> Dreamt:
    """Fold new notes into MEMORY.md now. Seldom needed: it happens by itself. May take minutes."""
    why = _REASONS[reason]
    if not wait and mode is not None:
        raise UsageError("a dream that nobody waits for is not only shown", "name no mode, or wait for it")
    if not wait and access.dream_soon(why):
        return Dreamt(None)
    return Dreamt(access.dream(why, mode or Mode.AUTO))


def status_text(value: Status) -> str:
    """Show how a workspace is: a verdict, then a row for each fact."""
    pending, spending, service = value.pending, value.spending, value.service
    oldest = f", the oldest for {duration(pending.oldest_seconds)}" if pending.notes else ""
    rows = facts(
        *([("project", value.project)] if value.project not in ("", value.workspace) else []),
        ("workspace", value.workspace),
        ("MEMORY.md", f"version {value.version}, {value.characters:,} characters"),
        (_name_of_last(value.last_dream), _last_dream(value.last_dream, value.at)),
        ("next dream", _next_dream(value)),
        ("model", value.model is not None and "; ".join(who_dreams(value.model)[: 1 if value.model else 2])),
        ("last read", _last_bootstrap(value.last_bootstrap, value.at)),
        ("notes", f"{waiting_words(pending.notes, more=pending.more)}{oldest}"),
        ("memories", _crystal_counts(value.crystals, value.waiting_embeddings)),
        ("spent today", _spent(spending)),
        ("withheld", value.withheld and f"{counted(value.withheld, 'text')}: forgotten"),
        ("ceiling", spending.breaker),
        ("daemon", service and f"process {service.pid}, since {service.since:%Y-%m-%d %H:%M %Z}"),
        ("held by", None if service else value.holder),
        ("review", value.proposals and f"{proposals_words(value.proposals)}: 'dreamd review'"),
        *(("refused", one.figures) for one in value.rejections),
        *(("problem", one) for one in value.problems),
    )
    return f"{_verdict(value)}\n{rows}"


def _verdict(value: Status) -> str:
    """Return in a sentence whether all is well, something goes on, or somebody is needed."""
    problems, asks = len(value.problems), value.proposals
    match verdict(value):
        case Verdict.DREAMING:
            return "◐ It is dreaming: 'dreamd dream' follows it."
        case Verdict.STOPPED if problems:
            return f"■ {counted(problems, 'problem')}: see below."
        case Verdict.STOPPED:
            how = (
                "was refused" if value.last_dream is not None and value.last_dream.outcome == "rejected" else "failed"
            )
            return f"■ The last dream {how}: its notes wait."
        case Verdict.WANTS:
            return f"▲ {proposals_words(asks)}." if asks else f"▲ {counted(problems, 'problem')}: see below."
    return "● All is well."


def _crystal_counts(stages: Mapping[str, int], waiting: int) -> str:
    meant = f"; {waiting:,} found by words alone so far" if waiting else ""
    return f"{sum(stages.values()):,}{meant}"


def _name_of_last(last: LastDream | None) -> str:
    return "last dream" if last is None or last.reason in {*Reason} else "last change"  # an act of the owner


def _last_dream(last: LastDream | None, now: datetime) -> str:
    if last is None:
        return "never ('dreamd dream' folds in what is new)"
    how = (ago(last.at, now), reason_words(last.reason), outcome_words(last.outcome))
    version = f"version {last.version}" if last.version else ""
    if last.reason not in {*Reason}:
        return listed(*how, version, last.detail)
    paid = f"{last.tokens:,} tokens, ${last.usd:.4f}" if last.tokens else ""
    return listed(*how, version, last.model and author_words(last.model), paid, last.detail)


def _last_bootstrap(last: BootstrapReceipt | None, now: datetime) -> str:
    """Describe what an agent was given last, and when."""
    if last is None:
        return "no agent has read it yet ('dreamd setup' connects yours)"
    how = f"{ago(last.at, now)}, {last.how}{f' ({last.agent})' if last.agent else ''}: version {last.version}"
    older = f"{'more than ' if last.more else ''}{last.left_out} left out" if last.left_out or last.more else ""
    cut, everywhere = last.cut.budget + last.cut.host, last.cut.everywhere
    return listed(
        how,
        f"{last.characters:,} characters",
        counted(last.notes, "note"),
        older,
        f"MEMORY.md cut to {last.budget:,}" if last.truncated else "",
        f"{counted(cut, 'line')} left out ('dreamd why-not' says why)" if last.truncated and cut else "",
        f"{counted(everywhere, 'line')} of the global workspace left out" if everywhere else "",
    )


def _next_dream(value: Status) -> str:
    service = value.service
    if service is None or service.at is None or service.dreaming:
        return value.next_dream
    seconds = (service.at - value.at).total_seconds()
    when = "now" if seconds < 1 else f"at {service.at:%H:%M %Z}, in {duration(seconds)}"
    return f"{when}: {service.upcoming}"


def _spent(spending: Spending) -> str:
    """Return what this workspace has cost today, and all of them if others have cost something too."""
    paid = f", {spending.tokens:,} of {spending.tokens_per_day:,} tokens, {counted(spending.calls, 'call')}"
    own = f"${spending.usd:.4f} of ${spending.usd_per_day:.2f}{paid if spending.calls else ''}"
    if spending.all_tokens <= spending.tokens and spending.all_usd <= spending.usd:
        return own
    tokens = f"{spending.all_tokens:,} of {spending.all_tokens_per_day:,} tokens"
    return f"{own}; by all workspaces ${spending.all_usd:.4f} of ${spending.all_usd_per_day:.2f}, {tokens}"


@operation("dream_status", reads=True, agents="memory", text=status_text, names_files=True)
def dream_status(access: WorkspaceAccess) -> Status:
    """Return last and next dream, pending notes, spend, problems and what to do about them."""
    return status(access.workspace, access.config, utc_now(), access.service())


@dataclass(frozen=True, slots=True)
class DreamPage:
    """A page of runs, newest first. `next_cursor` is null on the last page."""

    dreams: tuple[DreamRun, ...]
    next_cursor: str | None


@operation("dreams", reads=True)
def dreams(
    access: WorkspaceAccess,
    limit: Limit = 50,
    cursor: Annotated[str, Arg("next_cursor of the page before", max_length=200)] = "",
    outcome: Annotated[
        Literal["", "committed", "dry", "skipped", "rejected", "failed", "running"],
        Arg("Those that ended so; empty: all"),
    ] = "",
    kind: Annotated[Kind | None, Arg("Those of this kind: 'dream' changed something, 'owner' was no dream")] = None,
    since: Annotated[Moment | None, Arg("Those that began then or later")] = None,
    until: Annotated[Moment | None, Arg("Those that began before")] = None,
) -> DreamPage:
    """Return the dreams that ran, those that were skipped too, with what they cost and changed; the newest first.

    What the owner did between them is among them.
    """
    with access.read() as store:
        which = Which(outcome, kind or "", since, until)
        runs = store.ledger.told(limit + 1, which, _place(cursor) if cursor else ("9", ""))
        page = runs[:limit]
        following = f"{to_text(page[-1].started_at)} {page[-1].id}" if len(runs) > len(page) else None
        return DreamPage(described(store, page), following)


def _place(cursor: str) -> tuple[str, str]:
    """Return the moment and the id of the last run of the page before. Raise UsageError."""
    at, _, dream = cursor.partition(" ")
    try:
        return to_text(from_text(at)), dream
    except (StorageError, ValueError, OverflowError) as error:
        raise UsageError(f"{cursor!r:.60} is no cursor of this list", "begin without a cursor") from error


@operation("life", reads=True)
def life(
    access: WorkspaceAccess,
    days: Annotated[int, Arg("So many days, today included", ge=1, le=MOST_DAYS)] = 30,
) -> Life:
    """Return what happened to MEMORY.md by hour, day or week: lines of each section, changes, cost, failures."""
    with access.read() as store:
        return life_of(store, days, utc_now())


@operation("dream_details", reads=True)
def dream_details(
    access: WorkspaceAccess,
    dream: Annotated[Id, Arg("The beginning of its id")] = "",
    version: Annotated[int | None, Arg("The version that it made", ge=1, le=10**9)] = None,
    limit: Annotated[Limit, Arg("At most so many of each list")] = 200,
) -> DreamDetails:
    """Return one dream: its steps, what it changed and why, what was refused, prompts and answers, and the diff."""
    if bool(dream) is (version is not None):
        raise UsageError("which dream? name its id or its version", "'dreamd history' lists the versions")
    with access.read() as store:
        run = run_of_version(store.lineage, store.ledger, version) if version is not None else store.ledger.run(dream)
        return details(store, run, limit)


@dataclass(frozen=True, slots=True)
class ActPage:
    """A page of people's acts, newest first. `next_cursor` is null on the last page."""

    acts: tuple[Act, ...]
    next_cursor: int | None


@operation("acts", reads=True)
def acts(
    access: WorkspaceAccess,
    limit: Limit = 50,
    cursor: Annotated[int | None, Arg("next_cursor of the page before", ge=1, le=2**53)] = None,
) -> ActPage:
    """Return what people did through a window of the daemon, with the author and the outcome; the newest first."""
    with access.read() as store:
        found = store.ledger.acts(limit + 1, cursor)
        page = tuple(found[:limit])
        return ActPage(page, page[-1].number if len(found) > len(page) else None)
