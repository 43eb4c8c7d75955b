"""Working copy: the document while a dream changes it, and the ledger entries that each change makes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from graphs.guard import apply
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, id_in
from state.document.document import Edit, SectionName, render, stamped
from state.document.editing import edited
from state.document.operations import Action, Birth, Death, Fate, Operation, Refusal
from state.document.pointer import render_pointer
from state.document.seed import split_seed
from state.dream import CurrentLine, Dream, Evidence, PointerLine, Snapshot, Usage
from state.signals.hormones import mood, valence
from state.text.words import normalise
from state.trust import Trust, least_trust

# Text from before the first dream leaves gradually.
MAX_OLD_LINES = 20
# A line takes in old lines of which it has this share of the characters.
LEAST_TAKEN_IN = 0.25


class WorkingCopy:
    """Starts with the operations that the guards let through; evictions follow; `dream` gives the final `Dream`.

    `takes_in`: whether what the operations say of text from before the first dream takes it out of its old place.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        operations: Sequence[Operation],
        insights: Sequence[Crystal],
        *,
        takes_in: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._operations = tuple(operations)
        self._next = snapshot.next_line
        self.document, self.edits = apply(snapshot, [one for one in operations if one.action is not Action.EVICT])
        self.crystals: list[Crystal] = [*snapshot.notes, *insights]
        self.pointed: tuple[Crystal, ...] = snapshot.pointed
        self._twins = {crystal.text: crystal for crystal in (*snapshot.notes, *snapshot.twins)}
        self.pointers: list[PointerLine] = list(snapshot.pointers)
        self.retired: list[PointerLine] = []
        self.births: list[Birth] = []
        self.deaths: list[Death] = []
        self._written: list[tuple[Operation, Birth]] = []
        self.refused: list[Refusal] = []
        self.unmovable: set[str] = set()
        self.old_left = 0
        self.lines: list[CurrentLine] = list(snapshot.lines)
        self.old_text: list[CurrentLine] = list(snapshot.old_text)
        self._by_hand()
        for operation in self._operations:
            self._carry_out(operation)
        for line in tuple(self.lines):
            # Written by an earlier release, which quoted what a page or a tool said. Search still shows it.
            if line.trust.rank < Trust.AGENT.rank and not line.pinned and line.id not in snapshot.handwritten:
                self.remove(line, Fate.EVICTED, self.crystal_of(line))
        if takes_in:
            self._take_in_old_text()

    @property
    def characters(self) -> int:
        """Length of the file as it would be written."""
        return len(render(stamped(self.document, self._snapshot.now, mood(self._snapshot.hormones))))

    def crystal_of(self, line: CurrentLine) -> Crystal:
        """Return the crystal that keeps a line once it has left: one with its text already, else a new one."""
        text = self._snapshot.redaction.of(line.text)
        return (
            self._twins.get(line.text)
            or self._twins.get(text)
            or Crystal(
                text=text,
                origin=Origin.EVICTED,
                created_at=line.said_at or line.born_at,
                kind=Kind.GENERAL,
                importance=line.importance,
                trust=line.trust,
                context=line.section.value if line.id[0] == "L" else "",
                lifecycle=Lifecycle.CONSOLIDATED,
                valence=valence(self._snapshot.hormones),
                id=id_in(self._snapshot.dream, line.id),
            )
        )

    def said_by_hand(self, line: CurrentLine) -> str:
        """Keep a line as its owner's words, and return the id of that crystal."""
        said = replace(
            self.crystal_of(line),
            origin=Origin.SEED,
            created_at=self._now,
            lifecycle=Lifecycle.CONSOLIDATED,
            context="",
            id=id_in(self._snapshot.dream, line.id, "by hand"),
        )
        return self._kept(said)

    def remove(self, line: CurrentLine, fate: Fate, crystal: Crystal, successor: str = "") -> None:
        """Remove a line; its text is kept as a crystal."""
        old = line in self.old_text
        if fate in {Fate.EVICTED, Fate.DELETED}:
            self._edit(Edit(None if old else line.section, (line.text,), None))
        if old:
            self.old_text.remove(line)
            self.old_left += 1
        else:
            self.lines.remove(line)
        self.deaths.append(Death(line.id, line.section, line.text, fate, self._kept(crystal), successor))

    def pin(self, line: CurrentLine, *, pinned: bool) -> None:
        """Pin a line, or take its pin away; nothing else of it changes."""
        self._edit(Edit(line.section, (line.text,), pinned=pinned))

    def point(self, pointer: PointerLine) -> None:
        """Write a pointer."""
        text = render_pointer(pointer.topic, pointer.keywords)
        if any(other.keywords == pointer.keywords for other in self.pointers):
            return
        self._edit(Edit(SectionName.POINTERS, (), text))
        self.pointers.append(pointer)
        self._write(SectionName.POINTERS, text, 0.5, Trust.AGENT, (pointer.crystal,), ())

    def retire(self, pointer: PointerLine, line: CurrentLine | None, text: str) -> None:
        """Take a pointer out of the file; its keywords stay in the ledger."""
        self.pointers = [other for other in self.pointers if other.keywords != pointer.keywords]
        self.retired.append(pointer)
        if line is not None:
            self._edit(Edit(SectionName.POINTERS, (line.text,), None))
            self.lines.remove(line)
            born = [birth for birth in self.births if birth.id == line.id]
            if born:  # in this dream: the ledger never hears of it
                self.births.remove(born[0])
            else:
                self.deaths.append(Death(line.id, SectionName.POINTERS, text, Fate.EVICTED, pointer.crystal))

    def keep(self, line: CurrentLine, refusal: Refusal) -> None:
        """Keep a line that was to leave, with the refusal that says why."""
        self.unmovable.add(line.id)
        self.refuse(refusal)

    def refuse(self, refusal: Refusal) -> None:
        """Something that was wanted is not done."""
        self.refused.append(refusal)

    def dream(self, refused: Sequence[Refusal], author: str, usage: Usage, seconds: float) -> Dream:
        """Return the dream as it will be committed."""
        snapshot = self._snapshot
        feeling = mood(snapshot.hormones)
        return Dream(
            number=snapshot.based_on + 1,
            id=snapshot.dream,
            at=snapshot.now,
            cause="dream",
            reason=snapshot.reason.value,
            before=snapshot.text,
            after=render(stamped(self.document, snapshot.now, feeling)),
            mood=feeling,
            edits=self.edits,
            operations=self._operations,
            refused=(*refused, *self.refused),
            births=tuple(self.births),
            deaths=tuple(self.deaths),
            crystals=tuple(self.crystals),
            dreamt=tuple(
                dict.fromkeys((*snapshot.seeds, *(piece.crystal for piece in snapshot.evidence if piece.crystal)))
            ),
            pointers=tuple(self.pointers),
            retired_pointers=tuple(self.retired),
            taken=snapshot.taken,
            tombstones=snapshot.new_tombstones,
            lifted_tombstones=snapshot.lifted_tombstones,
            usage=usage,
            author=author,
            notes=sum(piece.id.startswith("N") for piece in snapshot.evidence),
            seconds=seconds,
            problems=snapshot.problems,
            newest=snapshot.newest,
            waiting=snapshot.waiting,
        )

    def _edit(self, edit: Edit) -> None:
        self.document, left_out = edited(self.document, [edit])
        if not left_out:
            self.edits = (*self.edits, edit)

    def _by_hand(self) -> None:
        """Enter what the owner wrote and deleted since the last version into the ledger of this one.

        A correction is a crystal at once, so that a search knows what it supersedes.
        """
        successors = dict(self._snapshot.corrected)
        corrections = set(successors.values())
        for line in self.lines:
            if line.id in self._snapshot.by_hand:
                evidence = (self.said_by_hand(line),) if line.id in corrections else ()
                self.births.append(Birth(line.id, line.section, line.text, line.importance, line.trust, evidence))
        for gone in self._snapshot.deleted:
            fate = Fate.REVISED if gone.id in successors else Fate.DELETED
            crystal = self._kept(self.crystal_of(gone))
            self.deaths.append(Death(gone.id, gone.section, gone.text, fate, crystal, successors.get(gone.id, "")))

    def _carry_out(self, operation: Operation) -> None:
        if operation.action is Action.EVICT:
            return
        pieces, lines = self._cited(operation)
        touched = [line for line in self.lines if line.id in operation.lines]
        importance = max([piece.importance for piece in pieces] + [line.importance for line in touched], default=0.5)
        said: Sequence[Evidence | CurrentLine] = pieces or [*lines, *touched]
        trust = least_trust([one.trust for one in said])
        evidence = tuple(dict.fromkeys(piece.crystal for piece in pieces if piece.crystal))
        born = self._write(operation.section, operation.text, importance, trust, evidence, operation.lines)
        self._written.append((operation, self.births[-1]))
        fate = Fate.REVISED if operation.action is Action.REVISE else Fate.MERGED
        for line in touched:
            self.remove(line, fate, self.crystal_of(line), born)

    def _take_in_old_text(self) -> None:
        """Remove text from before the first dream where a new line cites it and is not much shorter, or repeats it.

        Its own text is a crystal, and the ledger knows where it went. A heading under which nothing is left goes too.
        """
        sizes = {old.id: len(old.text) for old in self.old_text}
        written = {
            cite: birth
            for operation, birth in self._written
            for cite in operation.cites
            if LEAST_TAKEN_IN * sum(sizes.get(one, 0) for one in operation.cites) <= len(birth.text)
        }
        given = {piece.id for piece in self._snapshot.evidence}
        for old in tuple(self.old_text):
            key = normalise(old.text)
            taker = written.get(old.id) or next((one for one in self.births if normalise(one.text) == key), None)
            if old.pinned or old.id not in given or self.old_left >= MAX_OLD_LINES or taker is None:
                continue
            self._edit(Edit(None, (old.text,), None))
            self.old_text.remove(old)
            self.old_left += 1
            name = self._named()
            self.births.append(Birth(name, old.section, old.text, old.importance, old.trust))
            crystal = self._kept(self.crystal_of(old))
            self.deaths.append(Death(name, old.section, old.text, Fate.MERGED, crystal, taker.id))
        if not self.old_text and self._snapshot.based_on and split_seed(self._snapshot.text) is not None:
            self._edit(Edit(None))

    def _kept(self, crystal: Crystal) -> str:
        """Keep a crystal that this dream leaves behind, and return its id."""
        kept = next((other for other in self.crystals if other.digest == crystal.digest), None)
        if kept is None:
            self.crystals.append(crystal)
        return (kept or crystal).id

    def _cited(self, operation: Operation) -> tuple[list[Evidence], list[CurrentLine]]:
        pieces = [piece for piece in self._snapshot.evidence if piece.id in operation.cites]
        return pieces, [line for line in self._snapshot.lines if line.id in operation.cites]

    def _write(
        self,
        section: SectionName,
        text: str,
        importance: float,
        trust: Trust,
        evidence: tuple[str, ...],
        replaces: tuple[str, ...],
    ) -> str:
        name = self._named()
        self.births.append(Birth(name, section, text, importance, trust, evidence, replaces))
        self.lines.append(CurrentLine(name, section, text, importance, trust, self._now))
        return name

    def _named(self) -> str:
        self._next += 1
        return f"L{self._next - 1}"

    @property
    def _now(self) -> datetime:
        return self._snapshot.now
