"""A good dream is not refused: the guards over a corpus of honest updates, false rejections counted and printed."""

from collections.abc import Sequence

import pytest
from graphs.guard import apply, judge
from graphs.synthesis import read
from graphs.working_copy import WorkingCopy

from graphs.extractive import extract
from state.document.document import parse, render
from state.document.operations import Refusal
from state.dream import Draft
from state.text.words import normalise
from tests.graphs.honest import Honest
from tests.graphs.honest_corpus import ADDITIONS, HONEST, LANGUAGES
from tests.graphs.honest_reviewed import REWORDED

MOST_REFUSED = 0.01


def reported(what: str, refusals: Sequence[tuple[Honest, Refusal]], total: int) -> None:
    print(f"\n{what}: {len(refusals)} of {total} honest changes refused")
    for honest, one in refusals:
        print(f"  {one.guard}, {one.scope}: {one.figures}; {one.operation and one.operation.text!r} {honest.notes!r}")


def test_the_corpus_is_large_and_varied() -> None:
    assert len(HONEST) >= 130
    assert len(LANGUAGES) >= 12
    actions = [one.action.value for honest in HONEST for one in honest.operations]
    assert all(actions.count(name) >= 6 for name in ("add", "revise", "merge", "evict"))


def test_no_honest_operation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refusals, total = [], 0
    for honest in (*HONEST, *REWORDED):
        consumed = tuple(piece.id for piece in honest.snapshot.evidence)
        verdict = judge(honest.snapshot, Draft(tuple(honest.operations), consumed, author="scripted-1"))
        refusals += [(honest, one) for one in verdict.refused]
        total += len(honest.operations)
        if not verdict.refused:
            assert verdict.refusal is None
            assert list(verdict.operations) == list(honest.operations)
    with capsys.disabled():
        reported("operations", refusals, total)
    # A new name or number without an input is refused, also where it is an abbreviation.
    assert len(refusals) < MOST_REFUSED * total


def test_no_honest_note_is_refused_by_the_extractive_dream(capsys: pytest.CaptureFixture[str]) -> None:
    refusals, total = [], 0
    for honest in HONEST:
        verdict = judge(honest.snapshot, extract(honest.snapshot))
        every = (*((verdict.refusal,) if verdict.refusal else ()), *verdict.refused)
        refusals += [(honest, one) for one in every]
        total += len(honest.notes)
    with capsys.disabled():
        reported("extractive", refusals, total)
    assert refusals == []


def test_no_honest_document_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The same updates, answered as a whole document: each becomes operations that apply."""
    refusals, total = [], 0
    for honest in HONEST:
        after = render(apply(honest.snapshot, honest.operations)[0])
        draft = read(f"```markdown\n{after}```", honest.snapshot, "scripted-1", complete=True)
        verdict = judge(honest.snapshot, draft)
        refusals += [(honest, one) for one in verdict.refused]
        total += len(honest.operations)
        if verdict.refused:
            continue
        applied = apply(honest.snapshot, verdict.operations)[0]
        assert {block.key for _, block in applied.lines()} == {block.key for _, block in parse(after).lines()}
    with capsys.disabled():
        reported("whole documents", refusals, total)
    assert len(refusals) < MOST_REFUSED * total


@pytest.mark.parametrize("honest", HONEST)
def test_an_honest_update_stands_in_the_document_and_in_the_ledger(honest: Honest) -> None:
    copy = WorkingCopy(honest.snapshot, honest.operations, ())
    written = [(name, block.key) for name, block in copy.document.lines()]
    assert sorted(written) == sorted((line.section, normalise(line.text)) for line in copy.lines)
    for operation in honest.operations:
        if operation.action.value != "evict":
            assert (operation.section, normalise(operation.text)) in written


def test_most_additions_are_what_the_extractive_dream_would_write_too() -> None:
    written = sum(bool(judge(one.snapshot, extract(one.snapshot)).operations) for one in ADDITIONS)
    assert written >= 0.9 * len(ADDITIONS)
