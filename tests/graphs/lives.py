"""Lives: memories of any kind, and what any model may answer to them, drawn at random."""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from state.changes.change import CurrentLine
from state.crystals.crystal import Crystal, Origin
from state.document.asking import Ask
from state.document.document import parse, render
from state.document.merge import working
from state.document.operations import Action
from state.document.sections import SectionName
from state.document.seed import appended
from state.dream import Evidence, Kind, Snapshot
from state.forgetting.known import Known, Target, rows_of
from state.trust import Trust
from tests.graphs.world import BOND, CONTEXT, NOW, add, evict, memory, note, revise, snapshot

SALT = "5a" * 32
FORGOTTEN = "the harbour crane is 4711"
DELETED = "Anna's birthday is on 3 May."
_PEOPLE = ("Anna", "Ben", "Carla", "Douglas", "Emil")
_FACTS = (
    "prefers short answers", "lives in Bonn", "runs the importer on port 8080", "owns the DNS zone",
    "moved to Köln", "plays chess on Tuesdays", "reviews each release on 2026-03-20", "likes green tea",
)  # fmt: skip
sentences = st.builds(lambda who, what: f"{who} {what}.", st.sampled_from(_PEOPLE), st.sampled_from(_FACTS))
odd_texts = st.sampled_from(
    [
        "", " ", "TBD", "?", "## The Bond", "- nested\n- more", "x 📌", "Tea → search: `tea`", DELETED,
        DELETED.upper(),
        f"Anna says that {FORGOTTEN}.", "word " * 300, "_Last dream: never_", "```\ncode", "\u200b", "<b>x</b>",
        "Refactoring → Confidence: 90% | Occurrences: 9", "Anna prefers \u202eshort answers", "用户喜欢简短的回答。",
        "It uses sk-ant-api03-" + "a1B2" * 20, "---", "1. first", "> quoted", "Anna prefers short answers",
    ]
)  # fmt: skip
texts = st.one_of(sentences, sentences, sentences, odd_texts)
ids = st.one_of(
    st.integers(1, 14).map(lambda number: f"L{number}"),
    st.integers(1, 14).map(lambda number: f"L{number}"),
    st.integers(1, 6).map(lambda number: f"N{number}"),
    st.sampled_from(["T1", "T2", "C1", "S1", "L999", "N99", "X1", "", "l1"]),
)
inputs = st.integers(1, 5).map(lambda number: f"N{number}")


def buried(text: str) -> Known:
    """What is kept of a text that its owner had forgotten."""
    return Known(SALT, frozenset(rows_of(SALT, Target.of(text))))


@dataclass(frozen=True)
class Life:
    """What a dream reads, and what its model answers in turn."""

    read: Snapshot
    answers: tuple[str, ...]

    def messages(self, count: int | None = None) -> list[dict[str, str]]:
        """So many of the answers, as the messages of a conversation."""
        return [{"role": "assistant", "content": one} for one in self.answers[:count]]


@st.composite
def operations(draw: st.DrawFn) -> object:
    """An operation, mostly one that can be read."""
    kind = draw(st.sampled_from([*Action, *Action, "fly"]))
    row: dict[str, Any] = {"op": str(kind)}
    if draw(st.integers(0, 3)):
        row["section"] = draw(st.sampled_from([*(name.value for name in SectionName), "The Bond", "Active Context"]))
    row["lines"] = draw(st.lists(ids, min_size=1, max_size=3)) if kind not in ("add", "learn") else []
    row["cites"] = draw(st.lists(st.one_of(inputs, inputs, ids), max_size=3))
    row["text"] = draw(texts)
    if draw(st.booleans()):
        row["importance"] = draw(st.floats(0, 1))
    if not draw(st.integers(0, 3)):
        row["until"] = draw(st.sampled_from(["2026-03-01", "2026-03-20", "2027-01-01"]))
    if not draw(st.integers(0, 3)):
        row |= {"keywords": draw(texts), "pointer": draw(st.booleans())}
    return row


@st.composite
def answers(draw: st.DrawFn) -> str:
    """An answer of any model: an object, one in prose or cut off, or none."""
    listed = draw(st.lists(operations(), max_size=9))
    if not draw(st.integers(0, 5)):
        listed.insert(0, draw(st.sampled_from([None, 7, "evict L2", {}, {"op": "add"}, [[]]])))
    if not draw(st.integers(0, 7)):
        listed = [{"op": "evict", "lines": [f"L{number}"], "pointer": False} for number in range(1, 26)]
    said = json.dumps({"operations": listed, "consumed": draw(st.lists(inputs, max_size=4))})
    form = draw(st.sampled_from(["{}"] * 6 + ["```json\n{}\n```", "I think: {}", "no", "cut"]))
    return said[: draw(st.integers(0, len(said)))] if form == "cut" else form.replace("{}", said)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """What a dream reads: a memory of any size, notes, and whatever the owner wanted before."""
    names = st.sampled_from(["phenotype", "bond", "context", "context", "gaps", "niche"])
    chosen = draw(st.lists(st.tuples(names, sentences), max_size=14, unique_by=lambda one: one[1]))
    sections: dict[str, list[str]] = {}
    for name, text in chosen:
        sections.setdefault(name, []).append(text + (" 📌" if not draw(st.integers(0, 9)) else ""))
    behind = [Crystal(text, Origin.LINE, NOW) for text in draw(st.sets(texts.filter(_is_text), max_size=2))]
    sections["pointers"] = [f"Topic {at} → search: `{one.text.split()[0]}`" for at, one in enumerate(behind)]
    text, old = memory(**sections), list[str]()
    if draw(st.booleans()):
        old = draw(st.lists(sentences.map(lambda one: f"Once: {one}"), min_size=1, max_size=3, unique=True))
        text = appended("# Mine\n\n" + "\n\n".join(old) + "\n", text)
    lines = [replace(line, importance=draw(st.sampled_from([0.2, 0.5, 0.9]))) for line in _ledger(text, behind)]
    lines = [replace(line, until=draw(st.sampled_from(["", "", "2026-03-01", "2026-03-20"]))) for line in lines]
    by_hand = [line.id for line in lines if not line.crystal and not draw(st.integers(0, 3))]
    lines = [replace(line, trust=Trust.OWNER) if line.id in by_hand else line for line in lines]
    above = tuple(
        CurrentLine(f"T{at}", CONTEXT, one, 0.7, Trust.OWNER, NOW, above=True) for at, one in enumerate(old, 1)
    )
    return snapshot(
        text,
        *draw(notes(len(lines))),
        *(Evidence(one.id, Kind.OLD_TEXT, one.text, 0.7, Trust.OWNER, NOW, f"old{one.id}") for one in above),
        lines=tuple(lines),
        old_text=above,
        pointed=tuple(behind),
        handwritten=tuple(by_hand),
        tombstones=(DELETED,),
        forgotten=buried(FORGOTTEN),
        ask=draw(st.sampled_from([Ask.OWN, Ask.OWN, Ask.OWN, Ask.ALL])),
        proposed=draw(st.sampled_from([(), (), _PROPOSED])),
        budget=draw(st.sampled_from([700, 1_200, 8_000])),
    )  # fmt: skip


_PROPOSED = (
    revise(BOND, "L1", "Anna prefers short answers.", "N1"),
    evict(CONTEXT, "L2", "x"),
    add(BOND, "Ben likes green tea.", "N1"),
)


@st.composite
def notes(draw: st.DrawFn, lines: int) -> list[Evidence]:
    """Notes, some of which name what they replace, or were heard on a page."""
    said = draw(st.lists(st.one_of(sentences, sentences, odd_texts.filter(_is_text)), max_size=5, unique=True))
    made = [note(at, text, draw(st.sampled_from([0.3, 0.9]))) for at, text in enumerate(said, 1)]
    if made and lines and draw(st.booleans()):
        named = tuple(f"L{draw(st.integers(1, lines))}" for _ in range(draw(st.integers(1, 2))))
        made[0] = replace(made[0], replaces=named)
    if made and not draw(st.integers(0, 3)):
        made[-1] = replace(made[-1], heard="web", at=NOW - timedelta(minutes=5))
    return made


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """A memory and one to three answers."""
    return Life(draw(snapshots()), tuple(draw(st.lists(answers(), min_size=1, max_size=3))))


def _is_text(text: str) -> bool:
    # What was forgotten was erased from all that a dream reads.
    return bool(text.split()) and FORGOTTEN not in text


def _ledger(text: str, behind: list[Crystal]) -> list[CurrentLine]:
    """The lines of a text, its pointers with the crystals that they lead to."""
    found, led = list[CurrentLine](), iter(behind)
    for number, (name, block) in enumerate(parse(render(working(text))).lines(), 1):
        crystal = next(led).id if name is SectionName.POINTERS else ""
        born = NOW - timedelta(days=10) + timedelta(minutes=number)
        line = CurrentLine(f"L{number}", name, block.text, 0.5, Trust.AGENT, born, block.pinned, crystal=crystal)
        found.append(line)
    return found
