"""Which items of a session a query, a prompt, a context, a summary or an instruction takes."""

from typing import Any

import pytest

from state.errors import NotFoundError, UnsupportedInstructionError, UsageError
from state.sessions.item import Item, State
from state.sessions.policies import Bounded
from state.sessions.selection import Excerpt, Filters, context_of, is_about, select_items, summary_of, visible_items
from state.text.chunks import tokens
from tests.state.sessions.items import HOUR, MINUTE, START, item, seqs


def remembered(items: list[Item], prompt: str) -> list[int]:
    return seqs(filter(is_about(prompt), visible_items(items, START)))


def test_remembered_by_importance_then_the_newest() -> None:
    items = [
        item(0, importance=0.5, created_at=START),
        item(1, importance=0.9, created_at=START - HOUR),
        item(2, importance=0.5, created_at=START + MINUTE),
        item(3, importance=0.5, created_at=START + MINUTE),
        item(4, importance=0.9, state=State.HIDDEN),
        item(5, importance=1.0, expires_at=START),
    ]
    assert remembered(items, "") == [1, 3, 2, 0]
    assert remembered(items, "  ") == [1, 3, 2, 0]
    assert remembered(items, "note 2") == [1, 3, 2, 0], "they share the word"


def test_a_prompt_is_about_what_holds_it_or_shares_a_word_that_means_something() -> None:
    items = [
        item(0, content="Anna moved to Bonn"),
        item(1, content="the invoices are in the drawer"),
        item(2, content="what did she want with it"),
        item(3, content="東京都に住んでいる"),
        item(4, content="ｐｏｓｔｇｒｅｓ listens on 5432"),
    ]
    assert remembered(items, "which postgres?") == [4]  # though no byte of it is alike
    assert remembered(items, "where did Anna move?") == [0]
    assert remembered(items, "INVOICE") == [1]
    assert remembered(items, "what did") == [2]
    assert remembered(items, "東京") == [3]
    assert remembered(items, "nothing of the kind") == []


def test_filters_are_read_by_their_names() -> None:
    wanted = Filters(tags=("a",), priority="high", agent_id="planner", source="chat")
    fitting: dict[str, Any] = {"tags": ("b", "a"), "priority": "high", "agent_id": "planner", "source": "chat"}
    assert wanted.let(item(**fitting))
    for other in ({"tags": ("A",)}, {"priority": "low"}, {"agent_id": "other"}, {"source": ""}):
        assert not wanted.let(item(**(fitting | other)))
    assert Filters().let(item())


def three() -> list[Item]:
    """Old and important, new and not, in between."""
    return [
        item(0, content="zero", importance=0.9, token_count=10, created_at=START - 8 * HOUR),
        item(1, content="one", importance=0.2, token_count=10, created_at=START),
        item(2, content="two", importance=0.5, token_count=10, created_at=START - HOUR),
    ]


def taken(strategy: str, max_tokens: int | None = None, items: list[Item] | None = None) -> list[int]:
    return seqs(context_of(items or three(), strategy, max_tokens, START).items)


def test_each_strategy_has_its_order() -> None:
    assert taken("recent", 100) == [1, 2, 0]
    assert taken("important", 100) == [0, 2, 1]
    assert taken("balanced", 100) == [2, 1, 0]  # .25, .2, .1


def session() -> list[Item]:
    return [
        item(0, content="The bridge is slow. It was mended in May.", importance=0.4, step_index=0),
        item(1, content="Anna lives\n\nin Bonn.", importance=0.9, step_index=4, tags=("who",)),
        item(2, content="Never use MongoDB.", importance=0.7, step_index=10, created_at=START + MINUTE),
        item(3, content="The code is 17.", importance=0.69, step_index=5, tags=("Who", "code")),
        item(4, content="Hidden.", importance=1.0, step_index=10, state=State.HIDDEN),
        item(5, content="Expired.", importance=1.0, step_index=10, expires_at=START),
    ]


def summarized(items: list[Item], limit: int = 1000, scope: str = "all") -> Excerpt:
    step = max((one.step_index for one in items), default=0)
    return summary_of(items, scope, limit, step, Bounded(), START)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("all", [1, 2, 3, 0]),
        ("recent", [2, 3]),
        ("important", [1, 2]),
        ("by_tag:who", [1]),
        ("by_tag:Who", [3]),
        ("by_tag:none", []),
    ],
)
def test_scopes(scope: str, expected: list[int]) -> None:
    assert seqs(summarized(session(), scope=scope).items) == expected


@pytest.mark.parametrize("scope", ["", "ALL", "by_tag:", "tag:x"])
def test_any_other_scope_is_refused(scope: str) -> None:
    with pytest.raises(UsageError, match="none of all, recent, important, by_tag:x"):
        summarized(session(), scope=scope)


def test_a_summary_names_the_source_of_each_line_the_most_important_first() -> None:
    summary = summarized(session())
    assert summary.text == (
        "[1] Anna lives in Bonn.\n[2] Never use MongoDB.\n[3] The code is 17.\n"
        "[4] The bridge is slow. It was mended in May."
    )


def test_an_item_that_does_not_fit_gives_the_sentences_that_do() -> None:
    long = [item(content='It said "stop." Then it went on, in one very long sentence.')]
    room = tokens('[1] It said "stop."')
    assert summarized(long, room).text == '[1] It said "stop."'
    assert summarized(long, room - 1).text == ""
    assert summarized([item(content="東京に住む。大阪ではない。")], 10).text == "[1] 東京に住む。"


def test_an_empty_session_has_an_empty_summary() -> None:
    empty = summarized([], 10)
    assert (empty.text, empty.token_count, empty.items) == ("", 0, ())
    assert summarized([item(content=" \n")], 10).text == ""


def four() -> list[Item]:
    return [
        item(3, importance=0.5, step_index=0, state=State.HIDDEN),
        item(5, importance=0.2, step_index=1, created_at=START + MINUTE),
        item(8, importance=0.2, step_index=2, created_at=START),
        item(9, importance=0.9, step_index=2),
    ]


def names(text: str, mode: str = "soft") -> list[int]:
    return seqs(select_items(text, four(), mode))


@pytest.mark.parametrize(
    "text",
    [
        *("", "Oldest", " oldest", "newest", "position:", "position:1.5", "position:+1", "position:١", "before:4"),
        *("before:step_", "before:step_x", "least  important", "position:1 and more", "\ud800", "x" * 10_000),
    ],
)
def test_anything_else_is_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError) as refused:
        select_items(text, four(), "soft")
    assert refused.value.code == "UNSUPPORTED_INSTRUCTION"
    assert "use 'oldest', 'least important', 'position:N', 'before:step_N' or 'id:MEMORY_ID'" in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "soft", "hard"),
    [
        ("oldest", [5], [3]),  # softly, what is not hidden yet
        ("least important", [8], [8]),  # of two the older
        ("before:step_2", [5], [3, 5]),
        ("before:step_1000", [5, 8, 9], [3, 5, 8, 9]),
        ("position:0", [3], [3]),
        ("position:002", [8], [8]),
    ],
)
def test_what_an_instruction_means(text: str, soft: list[int], hard: list[int]) -> None:
    assert (names(text), names(text, "hard")) == (soft, hard)


@pytest.mark.parametrize("text", ["position:4", "position:-1", "position:" + "9" * 5000, "before:step_1"])
def test_what_is_out_of_range_is_not_found(text: str) -> None:
    with pytest.raises(NotFoundError, match="the session has 4 items"):
        names(text)
