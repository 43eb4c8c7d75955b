import pytest

from state.errors import UsageError
from state.sessions.item import Item, State
from state.sessions.policies.bounded import Bounded
from state.sessions.summarizing import Scope, scope_of, summarize
from state.text.chunks import tokens
from tests.state.sessions.shelves import MINUTE, START, ListShelf, item, seqs


def session() -> ListShelf:
    items: list[Item] = [
        item(0, content="The bridge is slow. It was mended in May.", importance=0.4, step_index=0),
        item(1, content="Anna lives\n\nin Bonn.", importance=0.9, step_index=4, tags=("who",)),
        item(2, content="Never use MongoDB.", importance=0.7, step_index=10, created_at=START + MINUTE),
        item(3, content="The code is 17.", importance=0.69, step_index=5, tags=("Who", "code")),
        item(4, content="Hidden.", importance=1.0, step_index=10, state=State.HIDDEN),
        item(5, content="Expired.", importance=1.0, step_index=10, expires_at=START),
    ]
    return ListShelf(items)


def test_the_most_important_come_first_and_every_line_names_its_source() -> None:
    summary = summarize(session(), Scope(), 1000, START)
    assert summary.text == (
        "[1] Anna lives in Bonn.\n[2] Never use MongoDB.\n[3] The code is 17.\n"
        "[4] The bridge is slow. It was mended in May."
    )
    assert seqs(summary.sources) == [1, 2, 3, 0]
    assert summary.tokens == tokens(summary.text)
    assert summarize(session(), Scope(), 1000, START) == summary


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
    shelf = session()
    assert seqs(summarize(shelf, scope_of(scope, shelf.step, Bounded()), 1000, START).sources) == expected


@pytest.mark.parametrize("scope", ["", "ALL", "everything", "by_tag:", "by_tag", "tag:x"])
def test_any_other_scope_is_refused(scope: str) -> None:
    with pytest.raises(UsageError, match="none of all, recent, important, by_tag:x"):
        scope_of(scope, 0, Bounded())


def test_an_item_that_does_not_fit_gives_the_sentences_that_do() -> None:
    long = ListShelf([item(content='It said "stop." Then it went on, in one very long sentence.')])
    room = tokens('[1] It said "stop."')
    assert summarize(long, Scope(), room, START).text == '[1] It said "stop."'
    assert summarize(long, Scope(), room - 1, START).text == ""
    assert (
        summarize(ListShelf([item(content="東京に住む。大阪ではない。")]), Scope(), 10, START).text
        == "[1] 東京に住む。"
    )


def test_a_whole_item_fits_to_the_last_token() -> None:
    one = ListShelf([item(content="It is one sentence")])
    room = tokens("[1] It is one sentence")
    assert summarize(one, Scope(), room, START).text == "[1] It is one sentence"
    assert summarize(one, Scope(), room - 1, START).text == ""


def test_one_that_gives_nothing_is_passed_over_for_the_next() -> None:
    items = [item(0, content="word " * 100, importance=0.9), item(1, content="Short.", importance=0.1)]
    summary = summarize(ListShelf(items), Scope(), 10, START)
    assert (summary.text, seqs(summary.sources)) == ("[1] Short.", [1])


def test_an_empty_session_has_an_empty_summary_and_a_limit_is_at_least_one() -> None:
    empty = summarize(ListShelf([]), Scope(), 10, START)
    assert (empty.text, empty.tokens, empty.sources) == ("", 0, ())
    assert summarize(ListShelf([item(content=" \n")]), Scope(), 10, START).text == ""
    with pytest.raises(UsageError, match="token_limit: 0 is below 1"):
        summarize(session(), Scope(), 0, START)
