"""A good dream is not refused: a conversation over a corpus of honest updates, refusals counted and printed."""

import pytest

from graphs import talk
from graphs.dream import Dreamer
from graphs.sheet import APPROVAL, Sheet, Told
from state.document.document import parse, render
from state.document.operations import Action
from state.text.words import normalise
from tests.graphs.honest import ADDITIONS, HONEST, LANGUAGES, REWORDED, Honest
from tests.graphs.world import World, ports, said

MOST_REFUSED, MOST_TOO_MUCH = 0.01, 0.05
EVERY = (*HONEST, *REWORDED)


def heard(honest: Honest) -> Sheet:
    """The sheet after the answer of a good model."""
    return talk.heard(honest.snapshot, [{"role": "assistant", "content": said(*honest.operations)}])


def test_the_corpus_is_large_and_varied() -> None:
    assert len(HONEST) >= 130
    assert len(LANGUAGES) >= 12
    actions = [one.action for honest in EVERY for one in honest.operations]
    assert all(actions.count(name) >= 6 for name in (Action.ADD, Action.REVISE, Action.MERGE, Action.EVICT))


def test_less_than_one_in_a_hundred_honest_operations_is_refused_and_each_is_told_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    total, left, too_much = sum(len(honest.operations) for honest in EVERY), list[Told](), 0
    for honest in EVERY:
        sheet = heard(honest)
        assert (len(sheet.told), sheet.unread) == (len(honest.operations), [])
        wrong = [one for one in sheet.told if one.mend]
        left += wrong
        too_much += any(one.guard == APPROVAL for one in sheet.refused)
        assert sheet.proposed == []
        if wrong:
            further = talk.reply(sheet, 1)
            assert further is not None
            assert all(one.words in further["content"] for one in wrong)
    with capsys.disabled():
        print(f"\n{len(left)} of {total} honest operations refused, {too_much} of {len(EVERY)} updates are too much")
        for one in left:
            print(f"  {one.words}: {one.operation.text!r}")
    # A new name or number without an input is refused, also where it is an abbreviation.
    assert len(left) < MOST_REFUSED * total
    # A project that is left behind changes more than a third of the memory at once.
    assert too_much < MOST_TOO_MUCH * len(EVERY)


@pytest.mark.parametrize("honest", EVERY)
def test_an_honest_update_stands_in_the_document_and_in_the_ledger(honest: Honest) -> None:
    sheet = heard(honest)
    written = [(name, block.key) for name, block in parse(render(sheet.document)).lines()]
    assert sorted(written) == sorted((line.section, normalise(line.text)) for line in sheet.standing)
    for one in sheet.told:
        if one.applied and one.operation.action not in (Action.EVICT, Action.CLOSE):
            assert (one.operation.section, normalise(one.operation.text)) in written


def test_without_a_model_every_honest_note_is_taken_in_and_nothing_refused() -> None:
    written = 0
    for honest in HONEST:
        ended = Dreamer(ports(World()), honest.snapshot).without_model()
        assert ended.dream is not None
        assert ended.refused == ()
        assert set(ended.dream.taken) == {row for row, _ in honest.snapshot.taken}
        written += honest in ADDITIONS and bool(ended.dream.changes)
    assert written >= 0.9 * len(ADDITIONS)
