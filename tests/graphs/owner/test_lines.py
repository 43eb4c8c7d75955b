"""Whatever the owner wants of lines: the ledger's lines are the file's, nothing is lost, and it is all or nothing."""

from collections import Counter
from dataclasses import replace

from graphs.owner.lines import LineAction, LineChange, change_lines
from hypothesis import given
from hypothesis import strategies as st

from state.codec import decode, encode
from state.document.document import SectionName, parse, render, stamped
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Why
from state.dream import Dream, Snapshot
from state.text.words import normalise
from state.trust import Trust
from tests.graphs.test_working_copy import sentences, snapshots
from tests.graphs.world import BOND, POINTERS, crystal_of, memory, snapshot
from tests.support.long_variants import examples

TEA, BONN, CHESS = "Anna prefers tea.", "Anna lives in Bonn.", "Anna plays chess."
WRITES = (LineAction.EDIT, LineAction.WRONG, LineAction.ADD)


@st.composite
def wanted(draw: st.DrawFn) -> tuple[Snapshot, list[LineChange]]:
    """A memory, and changes of its lines, possible ones and others."""
    read = draw(snapshots())
    changes = []
    for action in draw(st.lists(st.sampled_from(LineAction), min_size=1, max_size=4)):
        said = st.one_of(sentences, st.sampled_from([line.text for line in read.lines])) if read.lines else sentences
        text = draw(said) if action in (LineAction.EDIT, LineAction.ADD) or draw(st.booleans()) else ""
        text = text if action in WRITES else ""
        if action is LineAction.ADD or not read.lines:
            changes.append(LineChange(LineAction.ADD, draw(st.sampled_from(SectionName)), None, text or draw(said)))
        else:
            line = draw(st.sampled_from(read.lines))
            changes.append(LineChange(action, line.section, line, text))
    return read, changes


@examples(200)
@given(wanted())
def test_it_is_done_as_wanted_or_nothing_is_done(case: tuple[Snapshot, list[LineChange]]) -> None:
    read, changes = case
    done = change_lines(read, changes)
    assert (done.dream is None) is bool(done.refused)
    if done.dream is None:
        return
    dream = done.dream
    assert decode(Dream, encode(dream)) == dream
    document, left_out = edited(working(dream.before), dream.edits)
    assert left_out == ()
    assert render(stamped(document, dream.at, dream.mood)) == dream.after
    written = list(parse(dream.after).lines())
    dead = {death.id for death in dream.deaths}
    standing = [line for line in read.lines if line.id not in dead]
    expected = [(line.section, normalise(line.text)) for line in standing]
    expected += [(birth.section, normalise(birth.text)) for birth in dream.births]
    assert Counter((name, block.key) for name, block in written) == Counter(expected)
    assert all(birth.trust is Trust.OWNER for birth in dream.births)
    crystals = {crystal.id: crystal.text for crystal in dream.crystals}
    assert all(crystals[death.crystal] == death.text for death in dream.deaths)
    pinned = {line.text for line in read.lines if line.pinned}
    pinned |= {one.line.text for one in changes if one.line and one.action is LineAction.PIN}
    pinned -= {one.line.text for one in changes if one.line and one.action is LineAction.UNPIN}
    assert {block.key for _, block in written if block.pinned} == set(map(normalise, pinned))


def test_a_line_that_is_wrong_leaves_what_says_so() -> None:
    read = snapshot(memory(bond=[TEA, BONN]), lines=snapshot(memory(bond=[TEA, BONN])).lines)
    tea, bonn = read.lines
    done = change_lines(
        read,
        [LineChange(LineAction.WRONG, BOND, tea), LineChange(LineAction.WRONG, BOND, bonn, "Anna lives in Köln.")],
    )
    assert done.dream is not None
    said = {crystal.id: (crystal.text, crystal.trust) for crystal in done.dream.crystals}
    assert [(one.line, *said[one.crystal]) for one in done.dream.corrections] == [
        ("L1", f"It is not true that: {TEA}", Trust.OWNER),
        ("L2", "Anna lives in Köln.", Trust.OWNER),
    ]
    assert done.dream.tombstones == (TEA, BONN)
    assert {death.id: death.fate for death in done.dream.deaths} == {"L1": Why.DELETED, "L2": Why.REVISED}
    (birth,) = done.dream.births
    assert (birth.evidence, birth.replaces) == ((done.dream.corrections[1].crystal,), ("L2",))


def test_what_the_program_writes_is_deleted_and_not_written() -> None:
    text = memory(bond=[TEA], pointers=["Chess → search: `anna chess`"])
    lines = snapshot(text).lines
    pointer = next(line for line in lines if line.section is POINTERS)
    read = snapshot(text)
    refused = change_lines(
        read,
        [
            LineChange(LineAction.ADD, POINTERS, None, "Tea → search: `tea`"),
            LineChange(LineAction.EDIT, POINTERS, pointer, CHESS),
            LineChange(LineAction.WRONG, POINTERS, pointer),
        ],
    )
    assert sorted(refused.refused) == [0, 1, 2]
    done = change_lines(read, [LineChange(LineAction.DELETE, POINTERS, pointer)])
    assert done.dream is not None
    assert "search:" not in done.dream.after


def test_nothing_that_waits_is_taken_in() -> None:
    read = replace(snapshot(memory(bond=[TEA]), CHESS), waiting=3)
    done = change_lines(replace(read, notes=(crystal_of(CHESS),)), [LineChange(LineAction.PIN, BOND, read.lines[0])])
    assert done.dream is not None
    assert (done.dream.dreamt, done.dream.taken, done.dream.notes, done.dream.waiting) == ((), (), 0, 3)
