"""Operations on changes of MEMORY.md: list and undo those of any version, and answer what dreams propose."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.shapes import listed, one_row
from daemon.api.words import (
    CAUSES,
    action_words,
    author_words,
    cause_words,
    fate_words,
    proposals_words,
    trust_words,
)
from daemon.dream.proposals import Answered, open_proposals, settle
from daemon.journal.crystal import Evidence, evidence_by_id
from daemon.journal.story import Entry, latest_entries
from daemon.journal.undo import ChangesUndone, undo
from daemon.observability.printable import visible
from daemon.workspace.stores import Store
from state.changes.change import CurrentLine
from state.document.operations import Action
from state.document.sections import SectionName
from state.errors import UsageError
from state.stores.database.tables import Proposal
from state.text.words import counted

Numbers = Annotated[tuple[Annotated[int, Field(ge=1, le=10**9)], ...], Field(max_length=10_000)]
ChangeName = Annotated[str, Field(max_length=20)]
MOST_NAMES = 1_000

# ---------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes, the newest first."""

    changes: tuple[Entry, ...]


def changes_text(reply: Changes) -> str:
    """Show each change with its old and new lines and its evidence, and how to undo one."""
    rows = [row for one in reply.changes for row in entry_rows(one)]
    undoable = next((one.name for one in reply.changes if one.undoable), "")
    return "\n".join([*rows, *([f"'dreamd undo {undoable}' takes that back"] if undoable else [])]) or "no change yet"


def entry_rows(one: Entry) -> Iterator[str]:
    """Yield the name of a change, who made it, its old and new lines, and what it rests on."""
    by = cause_words(one.cause, one.reason)
    by += f", {author_words(one.author)}" if one.cause not in CAUSES and one.author else ""
    yield f"{one.name}  {fate_words(one.why)} · {one.section} · {by} · {one.at:%Y-%m-%d %H:%M %Z}"
    same = {line.text for line in one.old} & {line.text for line in one.new}  # pinned, moved or weighed
    yield from (f"   - {row}" for line in one.old if line.text not in same for row in visible(line.text).split("\n"))
    for line in one.new:
        sign = " " if line.text in same else "+"
        yield from (f"   {sign} {row}" for row in visible(line.text).split("\n"))
    yield from (f"   {row}" for row in _grounds(one.evidence))
    if not one.undoable:
        yield "   changed since, so it cannot be undone"


def _grounds(evidence: tuple[Evidence, ...]) -> Iterator[str]:
    """Yield a row for each piece of evidence."""
    for piece in evidence:
        who = listed(trust_words(piece.trust), piece.speaker, piece.heard and f"after a {piece.heard}'s answer")
        yield one_row(f"{who}, {piece.at:%Y-%m-%d}: {piece.text}" if piece.at else "a memory that was forgotten")


@operation("changes", reads=True, text=changes_text)
def changes(
    access: WorkspaceAccess,
    version: Annotated[int | None, Arg("Of this version; else the latest of all", ge=1, le=10**9, place=True)] = None,
    limit: Annotated[int, Arg("At most so many", ge=1, le=1_000)] = 20,
    since: Annotated[int, Arg("Only of versions after this one", ge=0, le=10**9)] = 0,
) -> Changes:
    """Return changes of lines by name, the newest first, each with what it rests on."""
    with access.read() as store:
        return Changes(latest_entries(store, limit, version, since))


def undone_text(done: ChangesUndone) -> str:
    """Say what was undone, and what has changed since."""
    rows = [f"undone: {', '.join(done.undone)}, as version {done.version}"] if done.undone else []
    rows += [f"changed since, so left as it is: {', '.join(done.outdated)}"] if done.outdated else []
    return "\n".join(rows)


@operation("undo", long=True, text=undone_text)
def undo_changes(
    access: WorkspaceAccess,
    changes: Annotated[
        tuple[ChangeName, ...],
        Arg("A change like 12.3, or a whole version like 12", min_length=1, max_length=MOST_NAMES, place=True),
    ],
) -> ChangesUndone:
    """Take changes of any versions back, as one version: their old lines come back as they were."""
    with access.exclusive() as store:
        done = undo(store, changes)
    access.mark_changed()
    return done


# ---------------------------------------------------------------- proposals


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change that applies only with its owner's yes. `new` replaces the `old` lines (empty: they leave).

    `why` says why the owner is asked, `written_at` when they wrote the line, if that is why. After `until` it is
    dropped; None: it stays.
    """

    number: int
    action: Action
    section: SectionName
    old: tuple[str, ...]
    new: str
    evidence: tuple[Evidence, ...]
    why: str
    dream: str
    at: datetime
    until: datetime | None
    written_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProposedChanges:
    """What waits for its owner, by number."""

    proposals: tuple[ProposedChange, ...]


def proposals_text(reply: ProposedChanges) -> str:
    """Show each proposal with its old and new lines and its evidence, and how to answer."""
    if not reply.proposals:
        return "nothing waits for you"
    few = " ".join(str(one.number) for one in reply.proposals[:2])
    rows = [f"{proposals_words(len(reply.proposals))}: 'dreamd review --accept {few}' or --decline,"]
    rows.append("--section NAME or --all for several; what you leave is dropped on its last day")
    for one in reply.proposals:
        until = f" · until {one.until:%Y-%m-%d}" if one.until else ""
        rows += ["", f"{one.number}  {action_words(one.action)} · {one.section}{until}"]
        rows += (f"   - {row}" for text in one.old for row in visible(text).split("\n"))
        new = one.new or "(leaves MEMORY.md: a pointer leads to it)"
        rows += (f"   + {row}" for row in visible(new).split("\n"))
        rows += (f"   {row}" for row in (*_grounds(one.evidence), one.why))
    return "\n".join(rows)


@operation("proposals", reads=True, text=proposals_text)
def proposals(access: WorkspaceAccess) -> ProposedChanges:
    """Return the changes that apply only with their owner's yes."""
    with access.read() as store:
        found = open_proposals(store)
        known = evidence_by_id(store, (cite for one, _ in found for cite in one.operation.cites))
        return ProposedChanges(tuple(_proposed(store, one, lines, known) for one, lines in found))


def _proposed(
    store: Store, one: Proposal, lines: tuple[CurrentLine, ...], known: dict[str, Evidence]
) -> ProposedChange:
    operation, days = one.operation, timedelta(days=store.config.dream.ask_days)
    takes_away = operation.action in (Action.EVICT, Action.CLOSE)
    return ProposedChange(
        number=one.number,
        action=operation.action,
        section=operation.section,
        old=tuple(store.shown(line.text) for line in lines),
        new="" if takes_away else store.shown(operation.text),
        evidence=tuple(known[cite] for cite in operation.cites if cite in known),
        why=_why_asked(one.why),
        dream=one.dream,
        at=one.at,
        until=None if one.is_agreement else one.at + days,
        written_at=next((line.born_at for line in lines if one.why == f"{line.id} was written by hand"), None),
    )


# Why a dream asks, as its record says it, and in the owner's words.
_WHY = (
    (r"L\d+ was written by hand", "You wrote this line"),
    (r"L\d+ is pinned", "You pinned this line"),
    (r"dream\.heard: ask; its agent had read (.*)", r"Your agent had read \1 before it noted this"),
    (r"dream\.ask: all", "You are asked about every change"),
)


def _why_asked(why: str) -> str:
    for pattern, said in _WHY:
        if match := re.fullmatch(pattern, why):
            return match.expand(said)
    return f"{why[:1].upper()}{why[1:]}"


def answered_text(done: Answered) -> str:
    """Say what became of each answer."""
    words = {
        f"accepted, as version {done.version}": done.accepted,
        "declined": done.declined,
        "outdated, so dropped": done.outdated,
    }
    rows = [f"{counted(len(ones), 'proposal')} {word}: {_listed(ones)}" for word, ones in words.items() if ones]
    rows += [f"{one.number} is already {one.answer}" for one in done.already]
    rows += [f"refused, and still waits: {one.number}: {one.refusal.figures}" for one in done.refused]
    return "\n".join(rows) or "nothing was answered"


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


@operation("answer_proposals", long=True, text=answered_text)
def answer_proposals(
    access: WorkspaceAccess,
    accept: Annotated[Numbers, Arg("They apply, as one version")] = (),
    decline: Annotated[Numbers, Arg("They are dropped, and their texts not proposed again")] = (),
) -> Answered:
    """Accept or decline what dreams propose."""
    if both := sorted(set(accept) & set(decline)):
        raise UsageError(f"proposal {both[0]} is accepted and declined", "do one of them")
    with access.exclusive() as store:
        done = settle(store, accept, decline)
    access.mark_changed()
    return done
