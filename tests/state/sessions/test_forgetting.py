import pytest

from state.errors import ConfirmRequiredError, NotFoundError, UnsupportedInstructionError, UsageError, error_of
from state.sessions.forgetting import (
    BeforeStep,
    InSet,
    LeastImportant,
    Mode,
    OfId,
    Oldest,
    Position,
    instruction_of,
    mode_of,
    selected_items,
)
from state.sessions.item import Item, State
from tests.state.sessions.shelves import MINUTE, START, ListShelf, item, seqs


def four() -> ListShelf:
    items: list[Item] = [
        item(3, importance=0.5, step_index=0, state=State.HIDDEN),
        item(5, importance=0.2, step_index=1, created_at=START + MINUTE),
        item(8, importance=0.2, step_index=2, created_at=START),
        item(9, importance=0.9, step_index=2),
    ]
    return ListShelf(items)


def names(text: str, mode: Mode = Mode.SOFT) -> list[int]:
    return seqs(selected_items(in_set(text), four(), mode))


def in_set(text: str) -> InSet:
    instruction = instruction_of(text)
    assert not isinstance(instruction, OfId)
    return instruction


def test_the_instructions_are_read() -> None:
    assert instruction_of("id:working_memory_s-the key_20260101-000000") == OfId(
        "working_memory_s-the key_20260101-000000"
    )
    assert instruction_of("oldest") == Oldest()
    assert instruction_of("least important") == LeastImportant()
    assert instruction_of("position:0") == Position(0)
    assert instruction_of("position:0017") == Position(17)
    assert instruction_of("before:step_4") == BeforeStep(4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Oldest",
        " oldest",
        "oldest\n",
        "newest",
        "everything",
        "position:",
        "position: 1",
        "position:1.5",
        "position:+1",
        "position:١",
        "before:4",
        "before:step_",
        "before:step_x",
        "least  important",
        "position:1 and more",
        "\ud800",
        "x" * 10_000,
    ],
)
def test_anything_else_is_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError) as refused:
        instruction_of(text)
    assert refused.value.code == "UNSUPPORTED_INSTRUCTION"
    assert "use 'oldest', 'least important', 'position:N', 'before:step_N' or 'id:MEMORY_ID'" in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_soft_one_means_what_is_not_hidden_yet() -> None:
    assert names("oldest") == [5]
    assert names("least important") == [8], "of two the older"
    assert names("before:step_2") == [5]
    assert names("before:step_1000") == [5, 8, 9]


def test_a_hard_one_means_hidden_ones_too() -> None:
    assert names("oldest", Mode.HARD) == [3]
    assert names("least important", Mode.HARD) == [8]
    assert names("before:step_2", Mode.HARD) == [3, 5]


def test_positions_are_those_of_the_set_from_the_oldest() -> None:
    for mode in Mode:
        assert [names(f"position:{place}", mode) for place in range(4)] == [[3], [5], [8], [9]]


@pytest.mark.parametrize(
    "text",
    ["position:4", "position:-1", "position:" + "9" * 5000, "before:step_0", "before:step_1", "before:step_-3"],
)
def test_what_is_out_of_range_is_not_found(text: str) -> None:
    with pytest.raises(NotFoundError, match="the session has 4 items"):
        names(text)


def test_in_an_empty_session_nothing_is_found() -> None:
    for text in ("oldest", "least important", "position:0", "before:step_9"):
        with pytest.raises(NotFoundError):
            selected_items(in_set(text), ListShelf([]), Mode.HARD)


def test_only_a_hard_one_has_to_be_confirmed() -> None:
    assert mode_of("soft", confirm=False) is Mode.SOFT
    assert mode_of("hard", confirm=True) is Mode.HARD
    with pytest.raises(ConfirmRequiredError, match="confirm=true"):
        mode_of("hard", confirm=False)
    with pytest.raises(UsageError, match="mode: 'gone' is none of soft, hard"):
        mode_of("gone", confirm=True)


@pytest.mark.parametrize("code", ["EXPIRED", "ALREADY_PROMOTED", "UNSUPPORTED_INSTRUCTION", "CONFIRM_REQUIRED"])
def test_an_error_from_another_process_keeps_its_class(code: str) -> None:
    error = error_of(code, "why")
    assert (error.code, str(error)) == (code, "why")
    assert type(error) not in (UsageError, NotFoundError)
