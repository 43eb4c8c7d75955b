"""Why not: the reason why a thing was not in what an agent was last given, and what to do about it.

The receipt says how much of which version was given; what is asked for is looked for wherever a thing can be: in what
was given, in MEMORY.md, among notes, changes, lines that left, crystals, in the global workspace and in others.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

from daemon.api.elsewhere import global_changes, global_lines, global_notes, holding
from daemon.api.provenance import LineHistory, why
from daemon.workspace.document import document_of, lines_with, read_document, without_lines
from daemon.workspace.redaction import shown_of
from daemon.workspace.session_start import is_global, session
from daemon.workspace.stores import Store, utc_now
from state.agents import Reader
from state.bootstrap import BUDGETS, LEAST_BUDGET, budget_for, rows_given
from state.document.document import SectionName, parse
from state.document.operations import Why
from state.dream import Decision
from state.errors import NotFoundError, StorageError
from state.reading import left_out
from state.stores.crystals.listing import Chosen, CrystalList, ListedCrystal
from state.stores.crystals.supersessions import Supersessions
from state.stores.history.bootstraps import BootstrapReceipt, receipts
from state.text.words import normalise

MOST_REASONS = 5
_SHOWN_CHARACTERS = 300
_LOOKED_AT = 4 * BUDGETS[0][1]
# Of so many crystals that hold the words, those are meant that hold them as they were asked for.
_CRYSTALS = 50
# What dreamd does to a memory; in the global workspace such a command needs the option.
_COMMAND = re.compile("'(dreamd (?:dream|review|restore|supersede|forget|note)(?![^']*--global)[^']*)'")
# Refusals are looked for in the records of so many versions that have some.
_RECORDS = 3
_LEAST_WINDOW = 32_000
_SEARCH = "memory_search finds it"


class Absence(StrEnum):
    """Why a thing was not given; or that it was."""

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
    UNCERTAIN = "not kept"
    CRYSTAL = "crystal"
    FORGOTTEN = "forgotten"
    ELSEWHERE = "another workspace"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is meant: why it was not given, in words, and what to do; `text` is empty for a forgotten one.

    `line` is where it stands in MEMORY.md; None where it does not.
    """

    code: Absence
    what: str
    advice: str = ""
    text: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The reasons, at most five, what was given first; `more`: so many others. `receipt`: None if nobody read it."""

    reasons: tuple[Reason, ...]
    more: int
    receipt: BootstrapReceipt | None


def why_not(store: Store, text: str, session: str = "") -> Answer:
    """Say why this text (or the line of this id) was not in what an agent was given last, or in this session.

    Raise NotFoundError if no bootstrap of this session is known.
    """
    receipt = next((one for one in receipts(store.workspace) if session in ("", one.session)), None)
    if receipt is None and session:
        raise NotFoundError("no bootstrap of this session is known", "leave it out, and the last one is meant")
    if store.crystals.forgotten.holds(text):
        advice = "'dreamd forget --lift' with the words lets it be learnt again"
        return Answer((_advised(store, Reason(Absence.FORGOTTEN, "it was forgotten for good", advice)),), 0, receipt)
    life = store.lineage.life(text.strip().upper())
    asked = _Asked(store, normalise(life.text if life else text), text.strip(), receipt, shown_of(store))
    found = list(asked.reasons()) if asked.wanted else []
    order = list(Absence)
    found.sort(key=lambda one: order.index(one.code))
    if not found:
        found.append(_unheard(store, asked.wanted))
    reasons = tuple(_advised(store, one) for one in found[:MOST_REASONS])
    return Answer(reasons, len(found[MOST_REASONS:]), receipt)


def _advised(store: Store, reason: Reason) -> Reason:
    """Return the reason with its commands as this workspace needs them: in the global one with its option."""
    if not is_global(store.workspace, os.environ):
        return reason
    return replace(reason, advice=_COMMAND.sub(r"'\1 --global'", reason.advice))


def _unheard(store: Store, wanted: str) -> Reason:
    """Explain what is in no store of this workspace."""
    other = holding(wanted, store.workspace, os.environ) if wanted else None
    if other is not None:
        what = f"it stands in the memory of {other} alone"
        return Reason(Absence.ELSEWHERE, what, "say it here as well, or everywhere: 'dreamd note --global'")
    return Reason(Absence.UNKNOWN, "nothing here says so", "'dreamd note' says it; or ask with other words of it")


@dataclass(slots=True)
class _Asked:
    """What is asked for, folded and as it was written, and of which bootstrap."""

    store: Store
    wanted: str
    text: str
    receipt: BootstrapReceipt | None
    shown: Callable[[str], str]
    then: str | None = None

    def reasons(self) -> Iterator[Reason]:
        """Yield a reason for each thing that is meant."""
        standing = list(self._standing())
        notes = list(self._notes())
        changes = list(self._changes())
        yield from (*standing, *notes, *changes)
        gone = [] if any(one.code is Absence.GIVEN for one in standing) else list(self._gone())
        yield from gone
        yield from self._everywhere()
        if not standing and not notes:
            crystals = list(self._crystals())
            yield from crystals
            if crystals and not changes and not gone:
                yield from self._refused()

    def _short(self, text: str) -> str:
        return self.shown(text[: 4 * _SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS]

    def _when(self) -> str:
        one = self.receipt
        return f"{one.at:%Y-%m-%d %H:%M} UTC" if one else "never"

    def _standing(self) -> Iterator[Reason]:
        """Yield what stands in MEMORY.md now, or stood there then."""
        now_text, _ = read_document(self.store)
        now = dict(lines_with(now_text, self.wanted))
        if self.receipt is None:
            for text, at in now.items():
                what = f"no agent has read this memory yet; it stands in line {at} of MEMORY.md"
                yield Reason(Absence.LATER, what, "'dreamd init' shows how to connect one", self._short(text), at)
            return
        then_text = self.then = document_of(self.store, self.receipt, now_text, without_lines(now_text, now))
        if then_text is None:
            yield from self._uncertain(now)
            return
        last, omitted = self._last_line(then_text), left_out(then_text)
        for text, at in lines_with(then_text, self.wanted):
            left = "" if text in now else ", which has left since"
            if at - 1 in omitted:
                what = f"it stood in line {at} of MEMORY.md{left}, and what dreamd only counts is given to no agent"
                yield Reason(Absence.CUT, what, _SEARCH, self._short(text), at)
                continue
            if at <= last:
                what = f"it was given at {self._when()}: line {at} of MEMORY.md{left}"
                yield Reason(Absence.GIVEN, what, "", self._short(text), at)
                continue
            cut = f"it stood in line {at} of MEMORY.md{left}, and the first {last} had room"
            yield Reason(Absence.CUT, f"{cut} {self._within()}", self._more_room(), self._short(text), at)
            now.pop(text, None)
        for text, at in now.items():
            if text not in then_text:
                what = f"it stands in line {at} of MEMORY.md since after {self._when()}, when the agent read it"
                advice = f"the next session start gives it; {_SEARCH} now"
                yield Reason(Absence.LATER, what, advice, self._short(text), at)

    def _uncertain(self, now: dict[str, int]) -> Iterator[Reason]:
        """Yield what stands or stood in MEMORY.md if its text of then is not kept."""
        one = self.receipt
        stood: dict[str, int] = {}
        with suppress(NotFoundError, StorageError):  # the record is gone
            if one is not None and one.version:
                stood = dict(lines_with(self.store.memory.text(one.version), self.wanted))
        kept = f"what MEMORY.md said when the agent read it ({self._when()}) is not kept"
        why = f"{kept}, so whether it was given is unknown"
        for text, at in now.items():
            what, advice = (
                f"it stands in line {at} of MEMORY.md now; {why}",
                f"the next session start reads it; {_SEARCH}",
            )
            yield Reason(Absence.UNCERTAIN, what, advice, self._short(text), at)
        for text, at in stood.items():
            if text not in now:
                what = f"version {one.version if one else 0} has it in line {at}, and MEMORY.md no longer; {why}"
                yield Reason(Absence.UNCERTAIN, what, "write it again to have it back", self._short(text))

    def _last_line(self, text: str) -> int:
        """Return the number of the last line of MEMORY.md that was given."""
        one = self.receipt
        if one is None or not one.truncated:
            return text.count("\n") + 1
        known = self.store.config.secrets.redaction.of(text[:_LOOKED_AT])
        return rows_given(known, one.cut, one.budget)

    def _within(self) -> str:
        one = self.receipt
        if one is None:
            return ""
        beside = " with what is true everywhere" if one.cut.everywhere or one.cut.same else ""
        by = f"; its hook takes {one.most:,} altogether" if one.cut.host else ""
        return f"in {one.budget:,} characters{beside}{by}"

    def _more_room(self) -> str:
        """Say what to set so that more of MEMORY.md is given, or so that dreams write no more than that."""
        one, window = self.receipt, self.store.config.dream.context_window
        if one is not None and one.budget < budget_for(window):
            least = next((size for size, characters in BUDGETS if characters <= one.budget), _LEAST_WINDOW)
            return (
                f"set dream.context_window to {least if one.budget > LEAST_BUDGET else _LEAST_WINDOW}, and dreams "
                f"write no more than this agent reads; or give it a larger --context-window; {_SEARCH}"
            )
        return f"move the line up, or give the agent a larger --context-window; {_SEARCH}"

    def _notes(self) -> Iterator[Reason]:
        """Yield what waits as a note."""
        notes = sorted(enumerate(self.store.notes.newest().notes), key=lambda one: (one[1].at, one[0]))
        one = self.receipt
        before = [note for _, note in reversed(notes) if one is not None and note.at <= one.at]
        for _, note in notes:
            if self.wanted not in normalise(note.text) or not self.shown(note.text):
                continue
            said, text = f"a note of {note.at:%Y-%m-%d %H:%M} UTC that no dream has folded in", self._short(note.text)
            if one is None or note.at > one.at:
                advice = f"the next session start gives it; {_SEARCH} now"
                when = f"of after the agent read ({self._when()})" if one else "and no agent has read this memory yet"
                yield Reason(Absence.LATER, f"it is {said}, {when}", advice, text)
            elif before.index(note) < one.notes + one.cut.forgotten:
                yield Reason(Absence.GIVEN, f"it was given at {self._when()}, as {said}", "", text)
            else:
                by = f" (its hook takes {one.most:,} characters)" if one.cut.host_notes else ""
                what = f"it is {said}, older than the {one.notes} for which there was room{by}"
                yield Reason(Absence.NOTE_WAITS, what, f"run 'dreamd dream'; {_SEARCH}", text)

    def _everywhere(self) -> Iterator[Reason]:
        """Yield what the global workspace says."""
        for note in global_notes(self.store.workspace, self.wanted, os.environ):
            waits = f"it is a note of {note.at:%Y-%m-%d %H:%M} UTC that waits in the global workspace"
            what = f"{waits}, and only what a dream has folded in there is read everywhere"
            if self.shown(note.text):
                yield Reason(Absence.NOTE_WAITS, what, "run 'dreamd dream --global'", self._short(note.text))
        for one in global_changes(self.store.workspace, self.wanted, os.environ):
            what = (
                f"it is change {one.number} of the global workspace; it waits for the owner since {one.at:%Y-%m-%d}"
            )
            text = self._short(one.change.operation.text)
            yield Reason(Absence.APPROVAL, what, "'dreamd review --global' shows and decides it", text)
        lines = list(global_lines(self.store.workspace, self.wanted, os.environ))
        given = self._given_everywhere() if lines else ""
        for section, raw in lines:
            text, where = self._short(raw), f"the global workspace, in {section or 'no section'}"
            if section not in (SectionName.BOND, SectionName.PHENOTYPE):
                what = f"it stands in {where}, and of that one only The Bond and The Phenotype are read everywhere"
                yield Reason(
                    Absence.EVERYWHERE, what, "move the line there, or note it in this project as well", text
                )
            elif raw.strip("\n") in given:
                yield Reason(Absence.GIVEN, f"it is given in every project: it stands in {where}", "", text)
            else:
                what = f"it stands in {where}, whose share of the bootstrap is a third at most"
                yield Reason(Absence.EVERYWHERE, what, "shorten that memory, and run 'dreamd dream --global'", text)

    def _given_everywhere(self) -> str:
        """Return what an agent like the last one is given of the global workspace now."""
        one, window = self.receipt, self.store.config.dream.context_window
        limits = Reader(characters=one.budget) if one is not None else None
        redaction = self.store.config.secrets.redaction
        return session(self.store.workspace, window, limits, redaction, utc_now()).ready.everywhere

    def _changes(self) -> Iterator[Reason]:
        """Yield what waits for the owner."""
        for one in self.store.changes.open():
            operation = one.change.operation
            if one.decision is Decision.WAITING and self.wanted in normalise(operation.text):
                what = f"it is change {one.number}, which waits for the owner since {one.at:%Y-%m-%d}"
                yield Reason(
                    Absence.APPROVAL, what, "'dreamd review' shows and decides it", self._short(operation.text)
                )

    def _gone(self) -> Iterator[Reason]:
        """Yield the lines that left before the agent read."""
        try:
            histories = why(self.store, self.wanted)
        except NotFoundError:
            return
        version = self.receipt.version if self.receipt else self.store.lineage.last_version()
        for one in histories:
            if one.ending is not None and one.ending.version <= version:
                yield self._left(one)
            elif one.writing is not None and one.writing.version <= version and not self._stood(one.text):
                yield self._taken_out(one)

    def _stood(self, text: str) -> bool:
        """Tell whether this line was in MEMORY.md when the agent read it, as far as that is known."""
        if self.then is None:
            return True
        then = parse(self.store.config.secrets.redaction.of(self.then))
        return normalise(text) in {block.key for part in then.parts for block in part.lines}

    def _taken_out(self, line: LineHistory) -> Reason:
        """Explain a line that was changed or taken out by hand before the agent read, in no version yet."""
        ending = line.ending
        now = f"; it says now: {self._short(ending.successor)}" if ending and ending.successor else ""
        what = f"it had left MEMORY.md by hand when the agent read it ({self._when()}){now}"
        code = Absence.CHANGED if now else Absence.DELETED
        return Reason(code, what, "write it again to have it back", self._short(line.text))

    def _left(self, line: LineHistory) -> Reason:
        ending = line.ending
        if ending is None:
            raise ValueError("the line stands")
        left, text = f"its line left MEMORY.md in version {ending.version}", self._short(line.text)
        if ending.fate == Why.EVICTED:
            advice = f"search for `{ending.keywords}`" if ending.keywords else _SEARCH
            return Reason(Absence.EVICTED, f"{left}: there was no room, and a pointer leads to it", advice, text)
        if ending.fate == Why.DELETED:
            return Reason(Absence.DELETED, f"{left}: its owner took it out", "write it again to have it back", text)
        now = f"; it says now: {self._short(ending.successor)}" if ending.successor else ""
        return Reason(
            Absence.CHANGED, f"{left}: {ending.fate}{now}", f"'dreamd restore {ending.version - 1}' goes back", text
        )

    def _crystals(self) -> Iterator[Reason]:
        """Yield what is kept and does not stand in MEMORY.md."""
        listing = CrystalList(self.store.crystals.connection)
        rows = listing.part(Chosen(words=self.text), _CRYSTALS, utc_now())
        meant = [row for row in rows if self.wanted in normalise(row.text)] or rows
        current = Supersessions(self.store.crystals).among([key for row in meant for key in row.keys]).current
        for row in meant:
            newer = next((current[key] for key in row.keys if key in current), None)
            text = self._short(row.text)
            if not text:
                continue
            if newer is not None:
                holds = self.store.crystals.by_keys([newer]).get(newer)
                what = f"another value holds now: {self._short(holds.text)}" if holds else "another value holds now"
                yield Reason(Absence.SUPERSEDED, what, "both hold? 'dreamd supersede --undo' says so", text)
            else:
                yield Reason(Absence.CRYSTAL, *self._kept(row), text=text)

    def _kept(self, row: ListedCrystal) -> tuple[str, str]:
        """Say what became of a crystal, and what to do."""
        if row.dreamt_in is not None:
            taken = f"the dream of version {row.dreamt_in}" if row.dreamt_in else "a dream"
            what = f"it is a crystal that {taken} took in, and MEMORY.md does not say it in these words"
            return what, f"{_SEARCH}; 'dreamd note' with a higher importance says it again"
        before, waiting = self.store.crystals.place_among_undreamt(row.place.key)
        what = f"it is a crystal, and no dream has chosen it yet: {before + 1} of {waiting} by importance"
        return what, f"run 'dreamd dream'; {_SEARCH}"

    def _refused(self) -> Iterator[Reason]:
        """Yield what the guards refused, in the latest versions that have refusals."""
        for version in islice(self.store.ledger.versions_with_refusals(), _RECORDS):
            try:
                record = self.store.memory.version(version)
            except (NotFoundError, StorageError):
                continue
            for one in record.refused:
                if one.operation is not None and self.wanted in normalise(one.operation.text):
                    what = f"the guards refused it in version {version}: {one.guard}: {self.shown(one.figures)}"
                    text = self._short(one.operation.text)
                    yield Reason(Absence.REFUSED, what, "write the line by hand, or note it with its ground", text)
