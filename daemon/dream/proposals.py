"""Proposals: changes that only their owner may allow, from the dream that asks to the owner's answer."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from daemon.dream.memory import WorkspaceMemory, commit_owners
from daemon.dream.snapshot import as_input, standing
from daemon.workspace.document import page_of, settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import Asked, Carried, settle_proposals, still_applies
from state.changes.change import CurrentLine
from state.changes.page import Page
from state.document.operations import Refusal
from state.dream import Dream, Kind
from state.stores.database.connection import transaction
from state.stores.database.tables import Proposal


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the owner's answers, by the numbers of the proposals. `dream` is the version that they made.

    `outdated` ones no longer apply and are dropped; `refused` ones a guard refused, and they still wait. `already`
    have an answer, which stays.
    """

    dream: Dream | None
    accepted: tuple[int, ...]
    declined: tuple[int, ...]
    outdated: tuple[int, ...]
    refused: Mapping[int, Refusal]
    already: Mapping[int, str] = field(default_factory=dict)


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


def settle(store: Store, accept: Collection[int], decline: Collection[int]) -> Settled:
    """Carry out the owner's answers as one version. Raise NotFoundError for a number that is not known."""
    settle_document(store)
    proposals = store.proposals
    named = {number: proposals.get(number) for number in dict.fromkeys((*accept, *decline))}
    already = {number: one.answer for number, one in named.items() if one.answer}
    wanted = _with_lines(store, [named[number] for number in dict.fromkeys(accept) if number not in already])
    declined = {number: named[number].operation for number in dict.fromkeys(decline) if number not in already}
    accepted = {one.number: _asked(store, one, lines) for one, lines in wanted if not one.is_erased}
    snapshot = standing(store, utc_now())
    carried = settle_proposals(snapshot, accepted, declined, WorkspaceMemory(store))
    outdated = (*carried.outdated, *(one.number for one, _ in wanted if one.is_erased))
    dream = _committed(store, carried)
    with transaction(store.connection):
        store.memory.check()
        proposals.drop(outdated)
    return Settled(dream, carried.done, tuple(declined), outdated, carried.refused, already)


def _committed(store: Store, carried: Carried) -> Dream | None:
    """Commit the version, if any."""
    dream = carried.dream
    if dream is None:
        return None
    return commit_owners(store, dream, f"{dream.cause}: {dream.reason}", "by the owner")


def _asked(store: Store, one: Proposal, lines: tuple[CurrentLine, ...]) -> Asked:
    cited = store.crystals.get([cite for cite in one.operation.cites if not cite.startswith("L")])
    return Asked(one.operation, lines, tuple(as_input(crystal, Kind.CRYSTAL) for crystal in cited), one.is_agreement)


def _with_lines(store: Store, proposals: Collection[Proposal]) -> list[tuple[Proposal, tuple[CurrentLine, ...]]]:
    """Return each proposal with the lines that it is about, as they stood."""
    known = store.lineage.lines(name for one in proposals for name in one.operation.lines)
    return [(one, tuple(known[name] for name in one.operation.lines if name in known)) for one in proposals]


def _applies(one: Proposal, lines: tuple[CurrentLine, ...], page: Page) -> bool:
    return not one.is_erased and still_applies(one.operation, lines, page)
