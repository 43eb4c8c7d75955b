"""Reflection: insights from several new crystals, by one model call; none when there is little to say."""

from collections.abc import Sequence

from graphs.input_budget import numbered
from graphs.ports import Request
from graphs.synthesis import label
from prompts import Prompt, load, render
from prompts.replies import REFLECTION_SCHEMA, read_reflection
from state.crystals.crystal import Crystal, Lifecycle, Origin, id_in
from state.crystals.crystal import Kind as CrystalKind
from state.dream import Evidence, Kind, Snapshot
from state.signals.hormones import valence
from state.text.line import as_line
from state.text.words import content_terms, jaccard
from state.trust import least_trust

LEAST_PIECES = 12
LEAST_IN_GROUP = 2
ALIKE = 0.15
MAX_GROUPS = 6
MAX_SHOWN = 10
MAX_INSIGHTS = 5
IMPORTANCE = 0.6


def prompt() -> Prompt:
    """Load the prompt of the reflection."""
    return load("reflect")


def groups(snapshot: Snapshot) -> list[list[Evidence]]:
    """Group new notes and crystals about the same things, the largest first; none when there is little."""
    pieces = [
        piece
        for piece in snapshot.evidence
        if piece.kind in {Kind.NOTE, Kind.CRYSTAL} and piece.id not in snapshot.unasked
    ]
    if len(pieces) < LEAST_PIECES:
        return []
    found: list[tuple[frozenset[str], list[Evidence]]] = []
    for piece in pieces:
        terms = content_terms(piece.text)
        scored = [(jaccard(terms, known), at) for at, (known, _) in enumerate(found)]
        best = max(scored, default=(0.0, -1))
        if best[0] >= ALIKE:
            known, members = found[best[1]]
            found[best[1]] = (known | terms if len(members) < 3 else known, [*members, piece])
        else:
            found.append((terms, [piece]))
    large = sorted((members for _, members in found if len(members) >= LEAST_IN_GROUP), key=len, reverse=True)
    return large[:MAX_GROUPS]


def request(snapshot: Snapshot, clusters: Sequence[Sequence[Evidence]]) -> Request:
    """Ask the model about these groups."""
    shown = [
        [
            {"id": piece.id, "label": label(piece, snapshot.now), "text": snapshot.redaction.of(piece.text)}
            for piece in cluster[:MAX_SHOWN]
        ]
        for cluster in clusters
    ]
    system, user = render(prompt(), {"groups": shown, "limit": MAX_INSIGHTS})
    return Request(system, user, REFLECTION_SCHEMA, "insights")


def read(answer: str, snapshot: Snapshot) -> tuple[tuple[Evidence, ...], tuple[Crystal, ...]]:
    """Return the insights of an answer, as inputs and as crystals; without those that cite fewer than two inputs.

    Raise ReplyError for an answer that cannot be read.
    """
    pieces = {piece.id: piece for piece in snapshot.evidence}
    evidence, crystals = list[Evidence](), list[Crystal]()
    for said in read_reflection(answer):
        cited = [pieces[name] for name in dict.fromkeys(said.cites) if name in pieces]
        text = as_line(snapshot.redaction.of(said.text))
        if len(cited) < LEAST_IN_GROUP or not text:
            continue
        crystal = Crystal(
            text=text,
            origin=Origin.DREAM,
            created_at=snapshot.now,
            kind=CrystalKind.INSIGHT,
            importance=IMPORTANCE,
            trust=least_trust([piece.trust for piece in cited]),
            parents=tuple(piece.crystal for piece in cited if piece.crystal),
            lifecycle=Lifecycle.GENERATED,
            valence=valence(snapshot.hormones),
            id=id_in(snapshot.dream, "insight", str(len(crystals))),
        )
        crystals.append(crystal)
        evidence.append(
            Evidence("", Kind.INSIGHT, text, IMPORTANCE, crystal.trust, snapshot.now, crystal.id, "insight")
        )
    return numbered(Kind.INSIGHT, evidence[:MAX_INSIGHTS]), tuple(crystals[:MAX_INSIGHTS])
