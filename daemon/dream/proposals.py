"""Proposals: changes that only their owner may allow, from the dream that asks to the owner's answer."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from daemon.dream.memory import WorkspaceMemory, commit_owners
from daemon.dream.snapshot import as_input, standing
from daemon.workspace.document import page_of, settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import Asked, settle_proposals, still_applies
from state.changes.change import CurrentLine
from state.changes.page import Page
from state.document.operations import Refusal
from state.dream import Kind
from state.stores.database.connection import transaction
from state.stores.database.tables import Proposal


@dataclass(frozen=True, slots=True)
class AnsweredBefore:
    """A proposal that has an `answer` already; it stays."""

    number: int
    answer: str


@dataclass(frozen=True, slots=True)
class RefusedProposal:
    """A proposal that the owner accepted and a guard refused; it still waits."""

    number: int
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Answered:
    """The results of the answers. `version` is the one they made, if any.

    `outdated` ones no longer applied and are dropped; `refused` ones still wait; `already` were answered before.
    """

    version: int | None
    accepted: tuple[int, ...]
    declined: tuple[int, ...]
    outdated: tuple[int, ...]
    refused: tuple[RefusedProposal, ...]
    already: tuple[AnsweredBefore, ...] = ()


def open_proposals(store: Store) -> list[tuple[Proposal, tuple[CurrentLine, ...]]]:
    """Return the proposals that still apply to MEMORY.md as its owner left it, each with its lines as they stood."""
    waiting = store.proposals.all()
    page = page_of(store) if waiting else Page("", (), 1)
    return [(one, lines) for one, lines in _with_lines(store, waiting) if _applies(one, lines, page)]


def drop_stale(store: Store, now: datetime) -> int:
    """Drop the proposals that nobody answered in time or that no longer apply; return how many."""
    proposals = store.proposals
    if not (waiting := proposals.all()):
        return 0
    page = page_of(store)
    stale = [one.number for one, lines in _with_lines(store, waiting) if not _applies(one, lines, page)]
    with transaction(store.connection):
        store.memory.check()
        proposals.drop(stale)
        return len(stale) + proposals.sweep(now - timedelta(days=store.config.dream.ask_days))


def settle(store: Store, accept: Collection[int], decline: Collection[int]) -> Answered:
    """Carry out the owner's answers as one version. Raise NotFoundError for a number that is not known."""
    settle_document(store)
    proposals = store.proposals
    named = {number: proposals.get(number) for number in dict.fromkeys((*accept, *decline))}
    wanted = _with_lines(store, [named[number] for number in dict.fromkeys(accept) if not named[number].answer])
    declined = {number: named[number].operation for number in dict.fromkeys(decline) if not named[number].answer}
    accepted = {one.number: _asked(store, one, lines) for one, lines in wanted if not one.is_erased}
    snapshot = standing(store, utc_now())
    carried = settle_proposals(snapshot, accepted, declined, WorkspaceMemory(store))
    outdated = (*carried.outdated, *(one.number for one, _ in wanted if one.is_erased))
    dream = commit_owners(store, carried.dream, "by the owner") if carried.dream is not None else None
    with transaction(store.connection):
        store.memory.check()
        proposals.drop(outdated)
    return Answered(
        version=dream.number if dream is not None else None,
        accepted=carried.done,
        declined=tuple(declined),
        outdated=outdated,
        refused=tuple(RefusedProposal(number, one) for number, one in carried.refused.items()),
        already=tuple(AnsweredBefore(number, one.answer) for number, one in named.items() if one.answer),
    )


def _asked(store: Store, one: Proposal, lines: tuple[CurrentLine, ...]) -> Asked:
    cited = store.crystals.get([cite for cite in one.operation.cites if not cite.startswith("L")])
    return Asked(one.operation, lines, tuple(as_input(crystal, Kind.CRYSTAL) for crystal in cited), one.is_agreement)


def _with_lines(store: Store, proposals: Collection[Proposal]) -> list[tuple[Proposal, tuple[CurrentLine, ...]]]:
    """Return each proposal with the lines that it is about, as they stood."""
    known = store.lineage.lines(name for one in proposals for name in one.operation.lines)
    return [(one, tuple(known[name] for name in one.operation.lines if name in known)) for one in proposals]


def _applies(one: Proposal, lines: tuple[CurrentLine, ...], page: Page) -> bool:
    return not one.is_erased and still_applies(one.operation, lines, page)
