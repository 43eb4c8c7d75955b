"""Models that say what nobody said, before the guards: no line becomes another one's or nobody's."""

import json
from typing import Any

import pytest

from graphs import synthesis
from graphs.guards import judge
from state.document.operations import Action, Operation
from state.dream import Snapshot
from state.text.words import content_terms, jaccard, normalise, numbers
from tests.graphs.world import memory, snapshot
from tests.support.gallery import Kind, lying, name_of
from tests.support.gallery.living import BY_HAND
from tests.support.planted import LINES, NEWS

NOTES = (
    (NEWS[0],),
    (NEWS[1],),
    ("Amina ringed a crane by the weir, ring 7919", NEWS[0]),
    ("Lars lost sight of a kestrel behind the hedge, ring 15838",),
    ("The orchard was locked when Barbara came for the key.",),
)
# Words of a text that are a line's, so many, make it a version of that one.
VERSION = 0.5


def answered(kind: Kind, read: Snapshot) -> str:
    asked = synthesis.request(read, [])
    request: dict[str, Any] = {"messages": [{"content": asked.system}, {"content": asked.user}]}
    answer = kind(request, 1)
    assert isinstance(answer, str | dict)
    return answer if isinstance(answer, str) else json.dumps(answer)


def unsaid(operation: Operation, read: Snapshot) -> frozenset[str]:
    """The words and numbers of an operation that neither its lines nor what it cites have."""
    named = {*operation.lines, *operation.cites}
    texts = [line.text for line in read.lines if line.id in named]
    texts += [piece.text for piece in read.evidence if piece.id in named]
    known = frozenset[str]().union(*(content_terms(text) | frozenset(numbers(text)) for text in texts))
    return (content_terms(operation.text) | frozenset(numbers(operation.text))) - known


def is_version(operation: Operation, read: Snapshot) -> bool:
    terms = content_terms(operation.text)
    texts = [line.text for line in read.lines]
    known = normalise(operation.text) in map(normalise, texts)
    return not known and any(jaccard(content_terms(text), terms) >= VERSION for text in texts)


@pytest.mark.parametrize(
    ("kind", "notes"),
    [
        pytest.param(
            kind,
            notes,
            id=f"{name_of(kind)}-{notes[0][:12]}",
            marks=() if number % len(NOTES) == at else pytest.mark.full,
        )
        for number, kind in enumerate(lying.KINDS)
        for at, notes in enumerate(NOTES)
    ],
)
def test_no_line_says_what_nobody_said(kind: Kind, notes: tuple[str, ...]) -> None:
    read = snapshot(memory(context=[*LINES, *BY_HAND]), *notes)
    verdict = judge(read, synthesis.read(answered(kind, read), read, "liar", complete=True))
    said = [one for one in verdict.operations if one.action is not Action.EVICT]
    assert [one.text for one in said if is_version(one, read) and unsaid(one, read)] == []
