"""What a model is told: the memory, then what became of each operation, nothing twice, and nothing forgotten."""

from dataclasses import replace
from datetime import timedelta

import pytest

from graphs import talk
from state.crystals.crystal import Crystal, Origin
from state.dream import Evidence, Kind, PointerLine, Snapshot
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
    read = snapshot(TEXT, handwritten=("L1",), proposed=(revise(BOND, "L3", "x"),))
    until = {"L3": "2026-03-20", "L4": "2026-03-11"}
    user = opened(replace(read, lines=tuple(replace(one, until=until.get(one.id, "")) for one in read.lines)))
    for row in (
        'L1 (2026-03-02, 30 characters, importance 0.5, by the owner): "Anna prefers short answers."',
        "L2 (2026-03-02, 22 characters, importance 0.5, pinned): ",
        "L3 (2026-03-02, 37 characters, importance 0.5, until 2026-03-20, a change of it waits for the owner): ",
        "L4 (2026-03-02, 36 characters, importance 0.5, until 2026-03-11, over): ",
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


def test_who_leaves_next_is_told_while_there_is_room_and_of_the_budget_a_part_is_kept_back() -> None:
    user = opened(snapshot(TEXT, budget=8_000))
    assert "Should there be no room, these leave first: L3, L4, L1." in user
    used = talk.begun(snapshot(TEXT)).length
    assert f"given 7,600 characters of the file, and with its headings it has {used}: {7_600 - used:,} are" in user


def test_a_line_and_a_pointer_say_how_often_they_were_asked_for() -> None:
    tea = Crystal("Anna prefers tea.", Origin.LINE, NOW, id="c1", accesses=3)
    text = memory(bond=["Anna prefers tea.", "Anna lives in Bonn."], pointers=["CORS → search: `cors fails`"])
    lines = tuple(replace(one, crystal="c1" if one.id == "L1" else "") for one in snapshot(text).lines)
    used = PointerLine("CORS", "cors fails", "c2", uses=1)
    user = opened(snapshot(text, lines=lines, twins=(tea,), pointers=(used,)))
    asked = {row[:2]: row.partition("): ")[0].rpartition(", ")[2] for row in user.splitlines() if row[:1] == "L"}
    assert asked == {"L1": "asked for 3 times", "L2": "importance 0.5", "L3": "asked for 1 time"}


def test_what_became_of_the_last_answer_is_told_in_the_next_dream_without_what_was_forgotten_since() -> None:
    text = memory(
        bond=["Anna lives in Bonn."],
        context=[
            f"Anna says {SECRET}.",
            "The importer fails.",
            "The export fails, too.",
            "The release is on Friday.",
        ],
        pointers=["CORS → search: `cors fails`", "Anna's cat, which is old and grey → search: `anna cat`"],
    )
    read = snapshot(text, "Anna plays chess.", "Both fail.", handwritten=("L3",), budget=237)
    answer = said(
        replace(evict(CONTEXT, "L5", "x"), pointer=False), add(BOND, "Anna sails."),
        merge(CONTEXT, ["L3", "L4"], "The importer and the export fail.", "N2"), consumed=["N1"],
    )  # fmt: skip
    dream = run(read, Scripted([answer])).dream
    assert dream is not None
    user = opened(snapshot(dream.after, former=dream, forgotten=buried(SECRET)))
    told = user.partition("After your last answer of the dream before this one:\n")[2].partition("\n\n")[0]
    assert told.splitlines() == [
        '- a pointer left, for lack of room: L6 "CORS → search: `cors fails`"',
        '- a pointer left, for lack of room: L7 "Anna\'s cat, which is old and grey → search: `anna cat`"',
        '- a line left, for lack of room: L2 "Anna says [forgotten]."',
        f'- refused: add "Anna sails.": {dream.refused[0].figures}',
        '- waits for the owner: merge "The importer and the export fail."',
    ]
    assert "After your last answer" not in opened(snapshot(dream.after))


# The reply
@pytest.mark.parametrize("answer", [said(), said(add(BOND, "Anna plays chess.", "N1")), said(consumed=["N1"])])
def test_an_answer_that_leaves_nothing_to_mend_or_choose_is_the_last(answer: str) -> None:
    assert replied(snapshot(TEXT, "Anna plays chess."), answer) is None


def test_each_operation_is_told_once_and_what_applied_is_not_asked_again() -> None:
    read = snapshot(TEXT, "Anna plays chess.", handwritten=("L4",))
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
    assert "written by the owner" not in told  # that is not the model's to mend
    # What it does not say again is over.
    assert replied(read, answer, said()) is None


def test_what_is_no_id_is_refused_and_stops_no_other_operation() -> None:
    one = {"op": "add", "section": "The Bond", "text": "Anna plays chess."}
    answer = said(one | {"cites": ["the first note"]}, one | {"text": "It rains.", "cites": ["N2"]})
    read = snapshot(TEXT, "Anna plays chess.", "It rains.")
    sheet = talk.heard(read, [{"role": "assistant", "content": answer}])
    assert [(told.operation.text, told.words) for told in sheet.told] == [
        ("Anna plays chess.", "there is no ?"), ("It rains.", "L5"),
    ]  # fmt: skip


def test_a_model_that_says_all_of_it_again_is_done() -> None:
    read = snapshot(TEXT, "Anna plays chess.", "Short ones.", handwritten=("L4",))
    good = (
        add(BOND, "Anna plays chess.", "N1"), revise(BOND, "L1", "Anna prefers short ones.", "N2"),
        evict(CONTEXT, "L3", "x"),
    )  # fmt: skip
    once = said(*good, add(BOND, "Anna sails."))
    assert replied(read, once) is not None
    assert replied(read, once, said(*good)) is None
    asks = said(merge(CONTEXT, ["L3", "L4"], "The release fails on empty rows.", "N2"))
    sheet = talk.heard(read, [{"role": "assistant", "content": one} for one in (asks, asks)])
    assert (len(sheet.proposed), sheet.changes, talk.reply(sheet, 2)) == (1, [], None)


def test_a_list_is_whole_or_says_how_many_more_there_are() -> None:
    answer = said(*(add(BOND, f"Anna sails boat {n}.", "N9") for n in range(25)))
    told = replied(snapshot(TEXT), answer)
    assert told is not None
    rows = told.partition("These were refused:\n")[2].splitlines()
    assert [row[:5] for row in rows[:20]] == ["- add"] * 20
    assert rows[20] == "- and 5 more"


# What an answer takes in
def test_a_note_counts_as_consumed_unless_its_operation_was_refused() -> None:
    read = snapshot(TEXT, "Anna plays chess.", "Anna sails.", "It rains.")
    evicts_pin = replace(evict(BOND, "L2", "sails"), cites=("N2",))
    answer = said(evicts_pin, add(BOND, "Anna plays chess.", "N1"), consumed=["N2", "N3"])
    assert talk.heard(read, [{"role": "assistant", "content": answer}]).heard == {"N1", "N3"}


SECRET = "the harbour crane is 4711"

OLD = memory(
    bond=[
        "Anna keeps the harbour, its old lighthouse, both ferries and the customs house, and lives above a shop.",
        "Anna has the crane.",
    ]
)


def test_a_line_leaves_under_a_topic_of_its_own() -> None:
    world = replace(snapshot(OLD, "Anna keeps the harbour and its crane since May."), forgotten=buried(SECRET))
    ended = run(world, Scripted([said(evict(BOND, "L1", f"Anna and the harbour: {SECRET}"), consumed=["N1"])]))
    assert ended.dream is not None
    (pointer,) = texts(ended.dream.after, POINTERS)
    assert pointer.startswith("Anna keeps the harbour, its old lighthouse… → search:")


def test_a_secret_of_an_answer_is_no_line_and_not_repeated() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    answer = said(add(BOND, f"Anna uses {key}.", "N1"), {"op": "add", "text": key})
    sheet = talk.heard(snapshot(TEXT, "Anna has a key."), [{"role": "assistant", "content": answer}])
    assert key not in "".join(line.text for line in sheet.standing)
    assert key not in repr((sheet.refused, talk.reply(sheet, 1)))
