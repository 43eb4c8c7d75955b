"""Why not: why a text was not in the bootstrap that an agent last got, and what to do about it.

The receipt says which lines were given, and which there was no room for. The text is searched wherever it can be: in
MEMORY.md, among notes, proposals, removed lines and crystals, in the global workspace and in other workspaces.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from pathlib import Path

from daemon.config.paths import data_folder, global_root, is_global
from daemon.journal.story import LineStory, story_of_line
from daemon.workspace.adoption import open_workspace
from daemon.workspace.document import lines_with, read_document
from daemon.workspace.session_start import global_memory
from daemon.workspace.stores import Store, utc_now
from state.bootstrap import BUDGETS, LEAST_BUDGET, budget_for
from state.document.document import Block, parse
from state.document.operations import Why
from state.document.sections import SectionName
from state.errors import DreamdError, NotFoundError
from state.reading import left_out, row_digests
from state.stores.crystals.listing import Chosen, CrystalList
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import open_unmigrated
from state.stores.database.tables import Proposal
from state.stores.database.tombstones import tombstones_in
from state.stores.disk.places import kept_roots
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import BootstrapReceipt, receipts
from state.stores.history.notes import notes_of
from state.stores.history.proposals import Proposals
from state.text.words import normalise
from state.zone import clock_time, day_of

MOST_REASONS = 5
_SHOWN_CHARACTERS = 300
# Limits: crystals with the words, of which those with the exact text are meant; versions whose records are searched
# for refusals; other workspaces searched; and characters of each document.
_CRYSTALS, _RECORDS, _WORKSPACES, _LOOKED_AT = 50, 3, 20, 100_000
# Commands that act on a memory; for the global workspace they need --global.
_COMMAND = re.compile("'(dreamd (?:dream|review|restore|supersede|forget|note)(?![^']*--global)[^']*)'")
_LEAST_WINDOW = 32_000
_SEARCH = "memory_search finds it"
_NEXT_GIVES = f"the next session start gives it; {_SEARCH} now"
_AGAIN = "write it again to have it back"


class Absence(StrEnum):
    """Why a text was not given; or that it was."""

    GIVEN = "given"
    CUT = "cut"
    NOTE_WAITS = "note waits"
    LATER = "later"
    APPROVAL = "waits for approval"
    SUPERSEDED = "superseded"
    CHANGED = "changed"
    EVICTED = "evicted"
    REFUSED = "refused"
    DELETED = "deleted"
    EVERYWHERE = "global"
    CRYSTAL = "crystal"
    FORGOTTEN = "forgotten"
    ELSEWHERE = "another workspace"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reason:
    """One match: why it was not given, in words, and what to do; `text` is empty for a forgotten one.

    `line` is its line number in MEMORY.md, or None.
    """

    code: Absence
    what: str
    advice: str = ""
    text: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """At most five reasons, texts that were given first, and `more` others. `receipt`: None if no agent read it."""

    reasons: tuple[Reason, ...]
    more: int
    receipt: BootstrapReceipt | None


def why_not(store: Store, text: str, session: str = "") -> Answer:
    """Explain why this text (or the line of this id) was not in the last bootstrap, or that of this session.

    Raise NotFoundError if no bootstrap of this session is known.
    """
    receipt = next((one for one in receipts(store.workspace) if session in ("", one.session)), None)
    if receipt is None and session:
        raise NotFoundError("no bootstrap of this session is known", "leave it out, and the last one is meant")
    if store.crystals.forgotten.holds(text):
        advice = "'dreamd forget --lift' with the words lets it be learnt again"
        found = [Reason(Absence.FORGOTTEN, "it was forgotten for good", advice)]
    else:
        life = store.lineage.life(text.strip().upper())
        question, order = _Question(store, normalise(life.text if life else text), receipt), list(Absence)
        shown = (replace(one, text=question.short(one.text)) for one in question.reasons(text.strip()))
        found = sorted(shown, key=lambda one: order.index(one.code))
    if is_global(store.workspace.root, os.environ):
        found = [replace(one, advice=_COMMAND.sub(r"'\1 --global'", one.advice)) for one in found]
    return Answer(tuple(found[:MOST_REASONS]), len(found[MOST_REASONS:]), receipt and receipt.in_short)


class _Question:
    """The normalised text and the bootstrap that are asked about; each method searches one place."""

    def __init__(self, store: Store, wanted: str, receipt: BootstrapReceipt | None) -> None:
        self.store, self.wanted, self.receipt = store, wanted, receipt
        self.shown, self.zone = store.shown, store.config.zone
        self.when = clock_time(receipt.at, self.zone) if receipt else "never"

    def short(self, text: str) -> str:
        """Return the first 300 characters of a text, redacted."""
        return self.shown(text[: 4 * _SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS]

    def reasons(self, text: str) -> Iterator[Reason]:
        """Yield a reason for each match, at least one."""
        if not self.wanted:
            yield self._unknown()
            return
        standing, notes = list(self._in_memory()), list(self._notes())
        changes = list(self._proposed(self.store.proposals.all()))
        gone = [] if any(one.code is Absence.GIVEN for one in standing) else list(self._removed_lines())
        found = [*standing, *notes, *changes, *gone, *self._in_global_workspace()]
        if not standing and not notes:
            crystals = list(self._crystals(text))
            found += crystals
            if crystals and not changes and not gone:
                found += self._refused()
        yield from found or (self._unknown(),)

    def _in_memory(self) -> Iterator[Reason]:
        """Yield matches in MEMORY.md as it is now."""
        text, receipt = self._memory, self.receipt
        counted, stood = left_out(text), {} if receipt is None else self.store.lineage.stood_in(receipt.version)
        for raw, at in lines_with(text, self.wanted):
            key = Block(raw, content=True).key
            if receipt is None:
                what = f"no agent has read this memory yet; it stands in line {at} of MEMORY.md"
                yield Reason(Absence.LATER, what, "'dreamd setup' connects yours", raw, at)
            elif at - 1 in counted:
                what = f"it stands in line {at} of MEMORY.md, and what dreamd only counts is given to no agent"
                yield Reason(Absence.CUT, what, _SEARCH, raw, at)
            elif (told := self._told(receipt, raw, f"line {at} of MEMORY.md", at)) is not None:
                yield told
            elif key in stood:
                what = f"it stood in line {at} of MEMORY.md, and what stands above it says it or took its room"
                yield Reason(Absence.CUT, what, self._more_room(receipt), raw, at)
            else:
                what = f"it stands in line {at} of MEMORY.md since after {self.when}, when the agent read it"
                yield Reason(Absence.LATER, what, _NEXT_GIVES, raw, at)

    @cached_property
    def _memory(self) -> str:
        """MEMORY.md as it is now, without secrets."""
        return self.store.shown_memory(read_document(self.store.workspace, self.store.connection)[0])

    def _told(self, receipt: BootstrapReceipt, text: str, where: str, at: int | None = None) -> Reason | None:
        """Return what the receipt says of a line: that it was given, or that there was no room; else None."""
        digest = next(iter(row_digests(text)), 0)
        if digest in receipt.given:
            return Reason(Absence.GIVEN, f"it was given at {self.when}: {where}", "", text, at)
        if digest not in (*receipt.left, *receipt.dropped):
            return None
        beside = " with what is true everywhere" if receipt.cut.everywhere or receipt.cut.same else ""
        by = f"; its hook takes {receipt.most:,} altogether" if receipt.cut.host else ""
        first = "what is more important" if digest in receipt.dropped else "what stands above it"
        what = f"it stood in {where}, and {first} had room in {receipt.budget:,} characters{beside}{by}"
        return Reason(Absence.CUT, what, self._more_room(receipt), text, at)

    def _more_room(self, receipt: BootstrapReceipt) -> str:
        """Return advice to give more of MEMORY.md, or to have dreams write no more than is given."""
        if receipt.budget >= budget_for(self.store.config.dream.context_window):
            return f"move the line up, or give the agent a larger --context-window; {_SEARCH}"
        least = next((size for size, characters in BUDGETS if characters <= receipt.budget), _LEAST_WINDOW)
        return (
            f"set dream.context_window to {least if receipt.budget > LEAST_BUDGET else _LEAST_WINDOW}, and dreams "
            f"write no more than this agent reads; or give it a larger --context-window; {_SEARCH}"
        )

    def _notes(self) -> Iterator[Reason]:
        """Yield matches among pending notes."""
        notes = sorted(enumerate(self.store.notes.newest().notes), key=lambda one: (one[1].at, one[0]))
        one = self.receipt
        before = [note for _, note in reversed(notes) if one is not None and note.at <= one.at]
        for _, note in notes:
            if self.wanted not in normalise(note.text) or not self.shown(note.text):
                continue
            said = f"a note of {clock_time(note.at, self.zone)} that no dream has folded in"
            if one is None or note.at > one.at:
                when = f"of after the agent read ({self.when})" if one else "and no agent has read this memory yet"
                yield Reason(Absence.LATER, f"it is {said}, {when}", _NEXT_GIVES, note.text)
            elif before.index(note) < one.notes + one.cut.forgotten:
                yield Reason(Absence.GIVEN, f"it was given at {self.when}, as {said}", "", note.text)
            else:
                by = f" (its hook takes {one.most:,} characters)" if one.cut.host_notes else ""
                what = f"it is {said}, older than the {one.notes} for which there was room{by}"
                yield Reason(Absence.NOTE_WAITS, what, f"run 'dreamd dream'; {_SEARCH}", note.text)

    def _proposed(self, proposals: list[Proposal], where: str = "", option: str = "") -> Iterator[Reason]:
        """Yield matches among changes that need the owner's yes."""
        for one in proposals:
            if self.wanted in normalise(one.operation.text):
                what = (
                    f"it is proposal {one.number}{where}, which waits for the owner since {day_of(one.at, self.zone)}"
                )
                yield Reason(Absence.APPROVAL, what, f"'dreamd review{option}' shows it", one.operation.text)

    def _removed_lines(self) -> Iterator[Reason]:
        """Yield matches among lines that are not in MEMORY.md any more."""
        standing = {block.key for part in parse(self._memory).parts for block in part.lines}
        with suppress(NotFoundError):
            for one in story_of_line(self.store, self.wanted):
                if normalise(one.text) not in standing and one.id:
                    told = None
                    if self.receipt is not None:
                        where = "a line of MEMORY.md that has left since"
                        told = self._told(self.receipt, one.text, where)
                    yield told or self._why_it_left(one)

    def _why_it_left(self, one: LineStory) -> Reason:
        ending, now = one.ending, f"; it says now: {self.short(one.now)}" if one.now else ""
        if ending is None:
            return Reason(Absence.DELETED, "its line left MEMORY.md by hand", _AGAIN, one.text)
        left = f"its line left MEMORY.md in version {ending.version}"
        if ending.why == Why.EVICTED:
            advice = f"search for `{one.keywords}`" if one.keywords else _SEARCH
            return Reason(Absence.EVICTED, f"{left}: there was no room, and a pointer leads to it", advice, one.text)
        if ending.why == Why.DELETED:
            return Reason(Absence.DELETED, f"{left}: its owner took it out", _AGAIN, one.text)
        back = f"'dreamd undo {ending.name}' takes that back" if ending.undoable else _AGAIN
        how = "changed" if ending.why == Why.REVISED else ending.why
        return Reason(Absence.CHANGED, f"{left}: {how}{now}", back, one.text)

    def _crystals(self, text: str) -> Iterator[Reason]:
        """Yield matches among crystals."""
        crystals = self.store.crystals
        rows = CrystalList(crystals.connection).part(Chosen(words=text), _CRYSTALS, utc_now())
        meant = [row for row in rows if self.wanted in normalise(row.text)] or rows
        current = Supersessions(crystals).among([key for row in meant for key in row.keys]).current
        for row in meant:
            newer = next((current[key] for key in row.keys if key in current), None)
            if not self.short(row.text):
                continue
            if newer is not None:
                holds = crystals.by_keys([newer]).get(newer)
                what = f"another value holds now{f': {self.short(holds.text)}' if holds else ''}"
                yield Reason(Absence.SUPERSEDED, what, "both hold? 'dreamd supersede --undo' says so", row.text)
            elif row.dreamt_in is not None:
                taken = f"the dream of version {row.dreamt_in}" if row.dreamt_in else "a dream"
                what = f"it is a crystal that {taken} took in, and MEMORY.md does not say it in these words"
                advice = f"{_SEARCH}; 'dreamd note' with a higher importance says it again"
                yield Reason(Absence.CRYSTAL, what, advice, row.text)
            else:
                before, waiting = crystals.place_among_undreamt(row.place.key)
                what = f"it is a crystal, and no dream has chosen it yet: {before + 1} of {waiting} by importance"
                yield Reason(Absence.CRYSTAL, what, f"run 'dreamd dream'; {_SEARCH}", row.text)

    def _refused(self) -> Iterator[Reason]:
        """Yield matches among operations that guards refused, in the latest versions with refusals."""
        for version in islice(self.store.ledger.versions_with_refusals(), _RECORDS):
            record = self.store.memory.readable_version(version)
            for one in record.refused if record is not None else ():
                if one.operation is not None and self.wanted in normalise(one.operation.text):
                    what = f"a dream had it, and it was refused in version {version}: {self.shown(one.figures)}"
                    advice = "write the line by hand, or note it with its ground"
                    yield Reason(Absence.REFUSED, what, advice, one.operation.text)

    def _in_global_workspace(self) -> Iterator[Reason]:
        """Yield matches in the global workspace; nothing if this is the global workspace."""
        if is_global(self.store.workspace.root, os.environ):
            return
        with suppress(DreamdError, OSError):  # a bootstrap reports why it cannot be read
            memory, own = global_memory()
            if own is not None:
                with suppress(DreamdError, OSError, sqlite3.Error):
                    yield from self._waiting_globally(own)
            parts = parse(memory[:_LOOKED_AT]).parts
            lines = [(part.name, block.raw) for part in parts for block in part.lines if self.wanted in block.key]
            for section, raw in lines:
                where = f"it stands in the global workspace, in {section.value if section else 'no section'}"
                if section not in (SectionName.BOND, SectionName.PHENOTYPE):
                    what = f"{where}, and of that one only The Bond and The Phenotype are read everywhere"
                    advice = "move the line there, or note it in this project as well"
                    yield Reason(Absence.EVERYWHERE, what, advice, raw)
                elif self.receipt is None:
                    what = f"no agent has read this memory yet; {where}"
                    yield Reason(Absence.LATER, what, _NEXT_GIVES, raw)
                elif set(row_digests(raw)) & {*self.receipt.given}:
                    yield Reason(Absence.GIVEN, f"it is given in every project: {where}", "", raw)
                else:
                    what = f"{where}, whose share of the bootstrap is a third at most, or since after {self.when}"
                    advice = "the next session start may give it; else shorten that memory: 'dreamd dream --global'"
                    yield Reason(Absence.EVERYWHERE, what, advice, raw)

    def _waiting_globally(self, own: Workspace) -> Iterator[Reason]:
        """Yield matches among pending notes and changes of the global workspace, without notes forgotten there."""
        with notes_of(own) as pending:
            notes = [note for note in pending.newest().notes if self.wanted in normalise(note.text)]
        without = tombstones_in(own.database).without if notes else str
        for note in notes:
            if without(note.text) == note.text and self.shown(note.text):
                waits = f"it is a note of {clock_time(note.at, self.zone)} that waits in the global workspace"
                what = f"{waits}, and only what a dream has folded in there is read everywhere"
                yield Reason(Absence.NOTE_WAITS, what, "run 'dreamd dream --global'", note.text)
        if own.database.exists():
            with open_unmigrated(own.database) as connection:
                proposals = Proposals(connection).all()
            yield from self._proposed(proposals, " of the global workspace", " --global")

    def _unknown(self) -> Reason:
        """Return the reason for a text that this workspace does not have."""
        if (other := self._other_workspace()) is None:
            advice = "'dreamd note' says it; or ask with other words of it"
            return Reason(Absence.UNKNOWN, "nothing here says so", advice)
        what = f"it stands in the memory of {other} alone"
        return Reason(Absence.ELSEWHERE, what, "say it here as well, or everywhere: 'dreamd note --global'")

    def _other_workspace(self) -> Path | None:
        """Return the first of the user's other workspaces (at most twenty) whose MEMORY.md has the text."""
        not_meant = {self.store.workspace.root, global_root(os.environ)}
        with suppress(DreamdError, OSError):
            roots = kept_roots(data_folder(os.environ)) if self.wanted else ()
            for root in islice((one for one in roots if one not in not_meant), _WORKSPACES):
                with suppress(DreamdError, OSError):
                    own = open_workspace(root, os.environ)
                    content = (own.disk().read_optional(own.document) or b"")[:_LOOKED_AT]
                    if self.wanted in normalise(content.decode(errors="replace")):
                        return root
        return None
