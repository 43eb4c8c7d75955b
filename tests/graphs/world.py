"""A small world for dreams: a memory in a dictionary, a model that says what it is told, and snapshots to order."""

import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from graphs.dream import Dreamer, Ended, graph_of, has_news
from graphs.ports import Answer, Ports, Request, Trial
from state.changes.change import CurrentLine
from state.crystals.crystal import Crystal, Origin
from state.document.document import Document, Edit, blank, parse, render
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.dream import Dream, Evidence, Kind, Reason, Snapshot
from state.signals.felt import Felt
from state.signals.hormones import resting
from state.text.words import terms
from state.trust import Trust

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
BOND, CONTEXT, PHENOTYPE = SectionName.BOND, SectionName.CONTEXT, SectionName.PHENOTYPE
NICHE, POINTERS, GAPS, SKILLS = SectionName.NICHE, SectionName.POINTERS, SectionName.GAPS, SectionName.SKILLS


def memory(**sections: Sequence[str]) -> str:
    """A MEMORY.md with these lines: `bond=["…"]`, the names of `SectionName`'s members in lower case."""
    edits = [Edit(SectionName[name.upper()], (), line) for name, lines in sections.items() for line in lines]
    document, left_out = edited(blank(), edits)
    assert left_out == ()
    return render(document)


def standing(document: Document, importance: float = 0.5) -> tuple[CurrentLine, ...]:
    """The lines of a document, L1 at the top; each a minute younger than the one above it."""
    return tuple(
        CurrentLine(
            f"L{number}",
            name,
            block.text,
            importance,
            Trust.AGENT,
            NOW - timedelta(days=10) + timedelta(minutes=number),
            block.pinned,
        )
        for number, (name, block) in enumerate(document.lines(), 1)
    )


def note(number: int, text: str, importance: float = 0.5, trust: Trust = Trust.AGENT) -> Evidence:
    """A note as evidence, N1 and so on, with the crystal that keeps it."""
    return Evidence(
        f"N{number}", Kind.NOTE, text, importance, trust, NOW - timedelta(hours=1), crystal_of(text, trust).id
    )


def crystal_of(text: str, trust: Trust = Trust.AGENT) -> Crystal:
    """The crystal of a note."""
    made = Crystal(text, Origin.SCRATCH, NOW - timedelta(hours=1), trust=trust)
    return replace(made, id=made.digest)


def snapshot(text: str = "", *notes: str | Evidence, **changes: Any) -> Snapshot:
    """What a dream reads of this MEMORY.md and these notes."""
    lines = changes.pop("lines", standing(working(text)))
    evidence = tuple(one if isinstance(one, Evidence) else note(at, one) for at, one in enumerate(notes, 1))
    made = Snapshot(
        dream="20260312T143000Z",
        now=NOW,
        reason=Reason.MANUAL,
        text=text,
        based_on=3,
        budget=8_000,
        next_line=len(lines) + 1,
        hormones=resting(NOW),
        felt=Felt((), resting(NOW)),
        lines=lines,
        evidence=evidence,
        notes=tuple(crystal_of(one.text, one.trust) for one in evidence if one.kind is Kind.NOTE),
        taken=tuple((int(one.id[1:]), one.crystal) for one in evidence if one.kind is Kind.NOTE),
    )
    return replace(made, **changes)


def add(section: SectionName, text: str, *cites: str) -> Operation:
    """An addition."""
    return Operation(Action.ADD, section, text, (), cites)


def revise(section: SectionName, line: str, text: str, *cites: str) -> Operation:
    """A revision."""
    return Operation(Action.REVISE, section, text, (line,), cites)


def evict(section: SectionName, line: str, topic: str) -> Operation:
    """An eviction that cites the line itself."""
    return Operation(Action.EVICT, section, topic, (line,), (line,))


def merge(section: SectionName, lines: Sequence[str], text: str, *cites: str) -> Operation:
    """A merge that cites its lines, and perhaps more."""
    return Operation(Action.MERGE, section, text, tuple(lines), (*lines, *cites))


@dataclass
class Library:
    """Crystals, and a search over them: the rarer the words that match, the earlier."""

    crystals: dict[str, Crystal] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()  # ids that no search finds
    asked: list[str] = field(default_factory=list)
    least_words: int = 0  # fewer words find nothing
    meanings: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of texts, as vectors of the norm 1

    def upsert(self, crystals: Sequence[Crystal]) -> None:
        """Keep these."""
        for one in crystals:
            self.crystals.setdefault(one.id, one)

    @contextmanager
    def trial(self, crystals: Sequence[Crystal]) -> Iterator[Trial]:
        """Search as if these were kept."""
        tried = Library(dict(self.crystals), self.hidden, self.asked, self.least_words)
        tried.upsert(crystals)
        yield tried

    def alike(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The products of what these texts mean; nothing if nothing is known of any meaning."""
        known = [self.meanings.get(text, (0.0,)) for text in texts] if self.meanings else []
        return [[sum(map(operator.mul, one, other)) for other in known] for one in known]

    def first(self, keywords: str, limit: int) -> tuple[str, ...]:
        """Ids of the first hits."""
        self.asked.append(keywords)
        words = set(terms(keywords))
        if len(words) < self.least_words:
            return ()
        weight = {
            word: math.log(1 + len(self.crystals) / max(1, count)) for word, count in self.frequency(words).items()
        }
        scores = {
            name: sum(weight[word] for word in words & set(terms(one.text)))
            for name, one in self.crystals.items()
            if name not in self.hidden
        }
        ranked = sorted((name for name, score in scores.items() if score), key=lambda name: (-scores[name], name))
        return tuple(ranked[:limit])

    def frequency(self, words: Sequence[str] | set[str]) -> Mapping[str, int]:
        """How many crystals have each word."""
        texts = [set(terms(one.text)) for one in self.crystals.values()]
        return {word: sum(word in text for text in texts) for word in words}


@dataclass
class World(Library):
    """The memory of a workspace: it keeps what is committed."""

    committed: list[Dream] = field(default_factory=list)

    def commit(self, dream: Dream) -> Dream:
        """Keep the dream and its crystals."""
        self.upsert(dream.crystals)
        self.committed.append(dream)
        return dream


@dataclass
class Scripted:
    """A model that answers in turn, the last answer for ever; an exception is raised."""

    answers: Sequence[str | Exception | Answer]
    requests: list[Request] = field(default_factory=list)
    name: str = "scripted"
    context_window: int = 128_000

    def ask(self, request: Request) -> Answer:
        """The next answer."""
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Answer) else spoken(answer)


def spoken(text: str, finish_reason: str = "stop") -> Answer:
    """An answer that cost 100 + 20 tokens and a tenth of a cent."""
    return Answer(text, "scripted-1", 100, 20, 0.001, finish_reason, 0.5, estimated=False)


def said(*operations: Operation | Mapping[str, object], consumed: Sequence[str] = ()) -> str:
    """An answer with these operations."""
    rows = [as_said(one) if isinstance(one, Operation) else one for one in operations]
    return json.dumps({"operations": rows, "consumed": consumed})


def as_said(one: Operation) -> dict[str, object]:
    """An operation as a model says it."""
    row: dict[str, object] = {"op": one.action.value, "lines": one.lines, "cites": one.cites, "text": one.text}
    row |= {
        "section": one.section.value,
        "importance": one.importance,
        "until": one.until or None,
        "keywords": one.keywords or None,
    }
    return row if one.pointer else row | {"pointer": False}


def ports(world: World, model: Scripted | None = None, on_failure: str = "keep") -> Ports:
    """The world of one dream."""
    return Ports(world, model, lambda: NOW + timedelta(seconds=3), on_failure)


START: Any = {"messages": [], "usage": [], "failure": "", "unusable": "", "upto": []}


def run(read: Snapshot, model: Scripted | None = None, on_failure: str = "keep", world: World | None = None) -> Ended:
    """One dream as the daemon runs it: through the real graph with a model and news, in a row without."""
    dreamer = Dreamer(ports(world if world is not None else World(), model, on_failure), read)
    if model is None or not has_news(read):
        dreamer.ended = dreamer.without_model()
        dreamer.commit()
    else:
        graph_of(dreamer).invoke(START)
    assert dreamer.ended is not None
    return dreamer.ended


def texts(text: str, name: SectionName) -> list[str]:
    """The lines of one section of a MEMORY.md."""
    part = parse(text).section(name)
    return [block.text for block in part.lines] if part else []
