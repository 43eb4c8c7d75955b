"""What a model is told: the memory, then what became of each operation, nothing twice, and nothing forgotten."""

from dataclasses import replace
from datetime import timedelta

import pytest

from graphs import talk
from state.document.approval import Approval, Policy
from state.dream import Decision, EarlierChange, Evidence, Kind, Snapshot
from state.trust import Trust
from tests.graphs.lives import buried
from tests.graphs.world import (
    BOND,
    CONTEXT,
    NOW,
    POINTERS,
    Scripted,
    add,
    evict,
    memory,
    merge,
    note,
    revise,
    run,
    said,
    snapshot,
    texts,
)

TEXT = memory(
    bond=["Anna prefers short answers.", "Anna lives in Bonn. 📌"],
    context=["The release is planned for Friday.", "The importer fails on empty rows."],
)


def opened(read: Snapshot) -> str:
    return talk.opening(read)[1]["content"]


def replied(read: Snapshot, *answers: str) -> str | None:
    messages = [{"role": "assistant", "content": one} for one in answers]
    further = talk.reply(talk.heard(read, messages), len(answers))
    assert further is None or further["role"] == "user"
    return further["content"] if further else None


# The opening
def test_each_line_is_shown_with_its_day_its_weight_whose_it_is_and_its_marks() -> None:
    read = snapshot(TEXT, handwritten=("L1",), earlier=(EarlierChange(7, revise(BOND, "L3", "x"), Decision.WAITING),))
    until = {"L3": "2026-03-20", "L4": "2026-03-11"}
    user = opened(replace(read, lines=tuple(replace(one, until=until.get(one.id, "")) for one in read.lines)))
    for row in (
        'L1 (of 2026-03-02, 30 characters, importance 0.5, by the owner): "Anna prefers short answers."',
        "L2 (of 2026-03-02, 22 characters, importance 0.5, from agent, pinned): ",
        (
            "L3 (of 2026-03-02, 37 characters, importance 0.5, from agent, until 2026-03-20, "
            "change 7 of it waits for the owner): "
        ),
        "L4 (of 2026-03-02, 36 characters, importance 0.5, from agent, until 2026-03-11, over): ",
    ):
        assert row in user


def test_inputs_stand_in_the_order_in_which_they_were_said() -> None:
    pieces = [replace(note(n, f"Note {n}."), at=NOW - timedelta(hours=n)) for n in range(1, 13)]
    crystal = Evidence("C1", Kind.CRYSTAL, "A turn.", 0.7, Trust.OWNER, NOW - timedelta(hours=6, minutes=1))
    rows = [row for row in opened(snapshot("", *pieces, crystal)).splitlines() if row[:1] in "NC" and ": " in row]
    assert [row.split()[0] for row in rows] == [*(f"N{n}" for n in range(12, 6, -1)), "C1",
                                                *(f"N{n}" for n in range(6, 0, -1))]  # fmt: skip


def test_what_is_counted_and_what_is_asked_no_more_is_not_shown() -> None:
    skill = Evidence("S1", Kind.SKILL, "Refactoring → Confidence: 90% | Occurrences: 9", 0.9, Trust.AGENT, NOW)
    user = opened(snapshot(TEXT, note(1, "Shown."), note(2, "Asked three times."), skill, unasked=("N2",)))
    assert '"Shown."' in user
    assert "Asked three times." not in user
    assert "Occurrences: 9" not in user


def test_at_most_thirty_deleted_lines_are_shown_the_latest() -> None:
    user = opened(snapshot(TEXT, tombstones=tuple(f"deleted {n}." for n in range(40))))
    assert '"deleted 9."' not in user
    assert all(f'"deleted {n}."' in user for n in range(10, 40))


def test_a_file_that_is_too_long_says_who_leaves() -> None:
    fits = talk.begun(snapshot(TEXT)).length
    assert "these leave, in this order: L3." in opened(snapshot(TEXT, budget=fits - 20))
    assert "If you choose nothing" not in opened(snapshot(TEXT))


# The reply
@pytest.mark.parametrize("answer", [said(), said(add(BOND, "Anna plays chess.", "N1")), said(consumed=["N1"])])
def test_an_answer_that_leaves_nothing_to_mend_or_choose_is_the_last(answer: str) -> None:
    assert replied(snapshot(TEXT, "Anna plays chess."), answer) is None


def test_each_operation_is_told_once_and_what_applied_is_not_asked_again() -> None:
    read = snapshot(
        TEXT, "Anna plays chess.", earlier=(EarlierChange(3, evict(CONTEXT, "L4", "x"), Decision.DECLINED),)
    )
    answer = said(
        add(BOND, "Anna plays chess.", "N1"), add(BOND, "Anna sails."), evict(BOND, "L2", "Bonn"),
        {"op": "fly"}, evict(CONTEXT, "L4", "x"),
    )  # fmt: skip
    told = replied(read, answer)
    assert told is not None
    stands, _, refused = told.partition("These were refused:")
    assert '- add "Anna plays chess.": L5' in stands
    assert '- add "Anna sails.": a new line cites at least one input' in refused
    assert "- evict L2: L2 is pinned by the owner" in refused
    assert '- {"op": "fly"}: ' in refused
    assert "chess" not in refused
    assert "declined" not in told  # that is not the model's to mend
    # What it does not say again is over.
    assert replied(read, answer, said()) is None


def test_a_model_that_says_all_of_it_again_is_done() -> None:
    read = snapshot(TEXT, "Anna plays chess.", "Short ones.", policy=Policy(merge=Approval.ASK))
    good = (
        add(BOND, "Anna plays chess.", "N1"), revise(BOND, "L1", "Anna prefers short ones.", "N2"),
        evict(CONTEXT, "L3", "x"),
    )  # fmt: skip
    once = said(*good, add(BOND, "Anna sails."))
    assert replied(read, once) is not None
    assert replied(read, once, said(*good)) is None
    waits = said(merge(CONTEXT, ["L3", "L4"], "The release fails on empty rows.", "N2"))
    sheet = talk.heard(read, [{"role": "assistant", "content": one} for one in (waits, waits)])
    assert (len(sheet.staged), sheet.changes, talk.reply(sheet, 2)) == (1, [], None)


# What an answer takes in
def test_a_note_counts_as_consumed_unless_its_operation_was_refused() -> None:
    read = snapshot(TEXT, "Anna plays chess.", "Anna sails.", "It rains.")
    evicts_pin = replace(evict(BOND, "L2", "sails"), cites=("N2",))
    answer = said(evicts_pin, add(BOND, "Anna plays chess.", "N1"), consumed=["N2", "N3"])
    assert talk.heard(read, [{"role": "assistant", "content": answer}]).heard == {"N1", "N3"}


SECRET = "the harbour crane is 4711"

OLD = memory(bond=["Anna keeps the harbour.", "Anna has the crane."])


def test_a_line_leaves_under_a_topic_of_its_own() -> None:
    world = replace(snapshot(OLD, "Anna keeps the harbour and its crane since May."), forgotten=buried(SECRET))
    ended = run(world, Scripted([said(evict(BOND, "L1", f"Anna and the harbour: {SECRET}"), consumed=["N1"])]))
    assert ended.dream is not None
    (pointer,) = texts(ended.dream.after, POINTERS)
    assert pointer.startswith("Anna keeps the harbour → search:")


def test_a_secret_of_an_answer_is_no_line_and_not_repeated() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    answer = said(add(BOND, f"Anna uses {key}.", "N1"), {"op": "add", "text": key})
    sheet = talk.heard(snapshot(TEXT, "Anna has a key."), [{"role": "assistant", "content": answer}])
    assert key not in "".join(line.text for line in sheet.standing)
    assert key not in repr((sheet.refused, talk.reply(sheet, 1)))
