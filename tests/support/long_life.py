"""A memory that has lived for many days: a dream on most of them, some of which failed, and acts of its owner."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from daemon.workspace.stores import Store
from state.changes.change import Change, CurrentLine
from state.crystals.crystal import Crystal, Origin
from state.document.operations import Why
from state.document.pointer import render_pointer
from state.document.sections import SectionName
from state.dream import HUMAN, REVIEW, Dream, Usage
from state.scratch import Note
from state.stores.history.ledger import Call, Finished
from state.trust import Trust

_WRITTEN = (SectionName.CONTEXT, SectionName.BOND, SectionName.PHENOTYPE, SectionName.GAPS, SectionName.SKILLS)
_SUBJECTS = (
    "The standup",
    "The XML parser",
    "Mara's rate",
    "The nightly run",
    "The demo",
    "The invoice",
    "Ada's desk",
)
FAILED = "MODEL_ERROR: gpt-5-mini at https://api.test/v1 failed (500) (tries: 4); try later."


@dataclass(slots=True)
class _Growing:
    """The lines of a memory that grows; `chance` decides what happens."""

    chance: random.Random
    lines: dict[str, CurrentLine] = field(default_factory=dict)
    written: int = 0

    def line(self, section: SectionName, text: str, at: datetime) -> CurrentLine:
        self.written += 1
        trust, importance = Trust.AGENT, self.chance.randint(20, 90) / 100
        return CurrentLine(f"L{self.written}", section, text, importance, trust, at)

    def added(self, at: datetime) -> Change:
        section = self.chance.choices(_WRITTEN, (6, 5, 1, 1, 2))[0]
        subject, hour = self.chance.choice(_SUBJECTS), self.chance.randint(7, 18)
        return Change(Why.ADDED, (), (self.line(section, f"{subject} is due at {hour}:00 ({self.written})", at),))

    @property
    def own(self) -> list[CurrentLine]:
        """The lines without pointers."""
        return [one for one in self.lines.values() if one.section is not SectionName.POINTERS]

    def revised(self, at: datetime) -> Change:
        old = self.chance.choice(self.own)
        text = old.text.replace(":00", f":{self.chance.randint(10, 59)}")
        return Change(Why.REVISED, (old,), (self.line(old.section, f"{text}, by phone", at),))

    def evicted(self, at: datetime) -> tuple[Crystal, Change]:
        old = self.chance.choice(self.own)
        crystal = Crystal(old.text, Origin.LINE, at, id=f"{self.written:032x}")
        gone = [one for one in self.lines.values() if one.section is SectionName.POINTERS][:-9]
        pointer = self.line(SectionName.POINTERS, render_pointer(f"topic {self.written}", f"words {old.id}"), at)
        return crystal, Change(
            Why.EVICTED, (replace(old, crystal=crystal.id), *gone), (replace(pointer, crystal=crystal.id),)
        )

    def carried_out(self, changes: list[Change]) -> str:
        for change in changes:
            self.lines = {name: one for name, one in self.lines.items() if one.id not in {x.id for x in change.gone}}
            self.lines |= {one.id: one for one in change.come}
        parts = [f"## {section}\n\n" + "".join(self._texts(section)) for section in SectionName]
        return "# Working Memory State\n\n" + "\n".join(parts)

    def _texts(self, section: SectionName) -> Iterator[str]:
        yield from (f"- {one.text}\n" for one in self.lines.values() if one.section is section)


def grown(store: Store, now: datetime, days: int, seed: int = 41) -> None:
    """Let a memory live for these days until now: about four versions in five days."""
    growing, before = _Growing(random.Random(seed)), ""
    for day in range(days - 1, -1, -1):
        at, kind = now - timedelta(days=day, minutes=7), growing.chance.random()
        if day not in (0, days - 1) and kind < 0.2:
            continue
        if growing.lines and kind > 0.93:
            _failed(store, at)
            continue
        crystals, changes = list[Crystal](), [growing.added(at) for _ in range(growing.chance.randint(1, 4))]
        after = growing.carried_out(changes)
        if growing.chance.random() < 0.5:
            changes.append(growing.revised(at))
            after = growing.carried_out(changes[-1:])
        while len(growing.own) > 60:
            crystal, change = growing.evicted(at)
            crystals.append(crystal)
            changes.append(change)
            after = growing.carried_out([change])
        cause = growing.chance.choices(("dream", HUMAN, REVIEW), (8, 1, 1))[0]
        before = _committed(store, at, cause, before, after, changes, crystals)


def _committed(
    store: Store, at: datetime, cause: str, before: str, after: str, changes: list[Change], crystals: list[Crystal]
) -> str:
    number = store.lineage.last_version() + 1
    name = f"{at:%Y%m%dT%H%M%S%f}Z"
    reason = {"dream": "interval", HUMAN: "", REVIEW: "accepted 1, 2"}[cause]
    usage = Usage("gpt-5-mini", 1, 9_000, 0.0008 + 0.0001 * len(changes)) if cause == "dream" else Usage()
    dream = Dream(
        number=number, id=name, at=at, cause=cause, reason=reason, mood="calm", before=before, after=after,
        changes=tuple(changes), crystals=tuple(crystals), usage=usage, author=usage.model, seconds=17.0,
        notes=2 * len(changes),
    )  # fmt: skip
    done = store.memory.commit(dream).after
    if cause == HUMAN:  # what is saved in an editor is no run
        store.connection.execute("UPDATE versions SET dream = '' WHERE number = ?", (number,))
        return done
    store.ledger.begin(name, reason, at)
    store.ledger.end(name, "committed", "", at + timedelta(seconds=17), number)
    return done


def _failed(store: Store, at: datetime) -> None:
    name = f"{at:%Y%m%dT%H%M%S%f}Z"
    store.ledger.begin(name, "interval", at)
    store.ledger.add_steps(name, [Finished("gather", at, 0.1, "11 notes")])
    call = Call("d", "gpt-5-mini", "", usable=False, tokens=900, usd=0.0003)
    store.ledger.record_call(name, call, at)
    store.ledger.end(name, "failed", FAILED, at + timedelta(seconds=40))
    store.notes.inbox.append(Note("A note that waits", at, 0.5))
